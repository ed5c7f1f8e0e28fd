"""The numbers that the request loop reads: what bounds a batch, what an iteration costs, a policy's switches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Router(IntEnum):
    """Built-in rules."""

    ROUND_ROBIN = 0
    RANDOM = 1
    LEAST_REQUESTS = 2
    LEAST_TOKENS = 3
    POWER_OF_TWO = 4
    STICKY = 5
    GANG = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One instance's costs (seconds) and limits (tokens, sequences, blocks)."""

    pair_s: float = 0.0
    """Per query-key pair of a prompt."""
    kv_s: float = 0.0
    """Per token in the cache of a decoding sequence."""
    window_kv_s: float = 0.0
    """The same in layers with a sliding window, whose sequences count at most `window`."""
    per_sequence_s: float = 0.0
    prompt_floor_s: float = 0.0
    """Least of an iteration with prompts: the host launches its kernels one by one."""
    captured: int = 0
    """Tokens up to which it does not, because such iterations run captured graphs as well."""
    window: int = 0
    budget: int = 8192
    """Tokens of an iteration that holds prompts."""
    max_seqs: int = 256
    block: int = 16
    blocks: int = 1 << 30
    watermark: int = 0
    """Blocks that stay free when a request is admitted next to others."""
    poll: int = 1
    """Decode steps between two looks at the queue."""
    mixed: bool = True
    """Decode steps run in the iterations that hold prompts."""
    chunked: bool = True
    """Prompts may be cut to the budget."""
    reserve: bool = False
    """A request is admitted only with room for its whole answer."""
    static: bool = False
    """A batch is admitted when the one before has ended."""
    router: int = 0
    concurrency: int = 0
    """Closed loop; 0: requests arrive by the clock."""
    every: int = 0
    """Keep one event in that many; 0 keeps none."""
    seed: int = 0
    caching: bool = False
    """Blocks of content that was computed before are found again."""
    early: bool = False
    """They are found from when their computation is scheduled: requests of one iteration share them."""
    reserve_length: int = 0
    """With `reserve`: tokens that every request takes at least (Orca's longest answer)."""
    sequence_blocks: int = 0
    """Blocks that every sequence takes next to those of its tokens: recurrent states."""
    window_share: float = 0.0
    """Cache of windowed layers over that of the others, per token inside the window."""
    ratio_start: int = 0
    """Admission leaves room for this share (millionths) of the answers to come; 0: it does not look ahead."""
    ratio_least: int = 0
    """What the share falls to."""
    ratio_decay: int = 0
    """What it loses in a decode step."""
    retract: int = 0
    """Decode steps that the batch must have room for once requests were preempted."""
    least_made: bool = False
    """The decoding request that made the fewest tokens is preempted first, not the newest."""
    taken_last: bool = False
    """A preempted request is queued last, not first."""
    swap_blocks: int = 0
    """Blocks of host memory for preempted requests; beyond, they are computed again."""
    swap_block_s: float = 0.0
    """Seconds to copy one block to or from the host."""
    prompt_token_s: float = 0.0
    """Seconds per token of a prompt: layers with a window, which a longer prompt fills."""
    ranks: int = 1
    """Ranks of attention data parallelism. One of them computes a prompt, so that few prompts leave others idle."""
    reach: float = 0.0
    """Sparse attention: pairs that a token of a prompt is charged for at most; 0: no limit."""
    index_share: float = 0.0
    """Sparse attention: what scoring a pair takes over attending to it."""
    cp: int = 1
    """Ranks that cut a prompt along its tokens."""
    tokens_per_step: int = 1_000_000
    """Tokens that a decoding sequence makes in a step, on the average (millionths): more than one where drafted tokens
    are accepted."""
    step_tokens: int = 1
    """Tokens that it computes in a step: one, and those that were drafted."""
    lookahead: int = 0
    """Slots of the cache that it holds for drafted tokens."""

    @property
    def most_tokens(self) -> int:
        """Tokens of the largest iteration."""
        return self.budget + self.max_seqs * self.step_tokens

    @property
    def most_held_tokens(self) -> int:
        """Tokens of the largest iteration whose prompts its own cache holds.

        Every token of a prompt that is computed takes a slot of the cache, but for the last one of a prompt that was
        found there whole.
        """
        return min(self.budget, self.blocks * self.block) + self.max_seqs * self.step_tokens
