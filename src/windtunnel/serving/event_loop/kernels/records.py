"""Records, states and constants of the jitted request loop."""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any

NEW, WAITING, PREFILL, DECODE, DONE, REJECTED = range(6)
"""States of a request."""
IDLE, RUN, ITERATION = range(3)
"""What an instance does: nothing, decode steps alone, one iteration with prompts in it."""
CLASSES = 8
"""Classes of priority; 0 is served first."""
ROUND_ROBIN, RANDOM, LEAST_REQUESTS, LEAST_TOKENS, POWER_OF_TWO, STICKY, GANG = range(7)
"""Routers: in turn, at random, fewest requests, fewest tokens to do, the better of two at random, by prefix, and a
group's requests where the first of them found the fewest tokens to do."""
HISTOGRAM_BINS, HISTOGRAM_LOW_S, HISTOGRAM_PER_DECADE = 1600, 1e-5, 200
"""Time between tokens is counted in bins of 1.2 %, from 10 µs to 1,000 s."""
REQUEST = np.dtype(
    [(name, "f8") for name in ("arrival", "delay", "scheduled", "first", "finish")]
    + [("finish_step", "i8")]
    + [
        (name, "i4")
        for name in (
            "input",
            "output",
            "cached",
            "priority",
            "group",
            "left",
            "stored",
            "chunk",
            "made",
            "blocks",
            "state",
            "instance",
            "preemptions",
            "follow",
            "place",
            "behind",
            "next_prompt",
            "before",
            "after",
            "held",
            "hit",
            "nodes",
            "shared",
            "swapped",
            "cancel",
            "pool",
            "gang",
            "reused",
            "pinned",
        )
    ]
    + [("keep", "f8")],
    align=True,
)
"""A request: seconds; tokens of prompt and answer, of the prompt found in the cache; what is left to compute, what is
stored, what this iteration takes, what was made; links of the queue, of prompts under way, of the order of
admission. `held`: tokens inside the window, on the average of its answer. `follow`: the request that is sent `delay`
seconds after this one ended (its next turn), or −1. `hit`: prompt tokens found in the cache when it first entered.
`nodes`: of its chain that it holds; `shared`: blocks of those that it does not count as its own; `swapped`: blocks in
host memory, or −1 while its cache is on the instance that computed its prompt. `cancel`: 1 once it was taken back.
`pool`: group of instances that it is routed in; `gang`: number of its `group` among those of all. `reused`: prompt
tokens whose cache it takes over from other calls.
`keep`: seconds for which what it leaves in the cache is not evicted; `pinned`: 1 while that holds."""
INSTANCE = np.dtype(
    [(name, "f8") for name in ("start", "end", "first_step", "slope", "kv", "window")]
    + [(name, "i8") for name in ("step", "steps", "used", "polled", "ratio", "cached", "host", "row", "single")]
    + [("fraction", "i8")]
    + [(name, "i4") for name in ("mode", "decoding", "prefilling", "waiting", "prompt_head", "prompt_tail")]
    + [(name, "i4") for name in ("newest", "oldest", "youngest", "common")]
    + [
        (name, "i4")
        for name in ("pool", "prefill_only", "admitted", "last_admitted", "ready", "last_ready", "promised")
    ]
    + [(name, "i4") for name in ("line", "in_stages", "cancelled", "first_pin", "last_pin")],
    align=True,
)
"""An instance: the iteration or run under way, its batch, its cache. `ratio`: of the answers to come, what is expected
(millionths); `step`: tokens that a sequence decoding all along has made, and `fraction` of the next (millionths);
`cached`: blocks that nobody holds but whose content is known, from the `oldest` node to the `youngest`;
`common`: nodes that several requests may want, from `row` on; `single`: what to add to the number of any other.
`prefill_only`: 1 where prompts are computed for another pool; `admitted` and `ready`: heads of the lists of answers
that have just got blocks and of those whose cache has arrived; `promised`: prompts sent to it whose answers still wait
for blocks. Answers whose cache is on its way count as `prefilling`. `line`:
number of its pipeline, or −1; `in_stages`: 0 where a run may go on (or does) whose steps after the first are not sent
through the pipeline's stages one by one, because no other lane uses them. `cancelled`: list of running requests that
were taken back; `first_pin`, `last_pin`: of those that are over and keep their blocks."""
NODE = np.dtype([(name, "i4") for name in ("resident", "holders", "before", "after")])
"""A stretch of content in one instance's cache: blocks there, requests that hold it, its place among those let go."""
TOTAL = np.dtype(
    [
        (name, "f8")
        for name in (
            "busy_s",
            "iterations",
            "prompt_iterations",
            "prompt_tokens",
            "decode_tokens",
            "prompt_pairs",
            "kv_tokens",
            "running_s",
            "used_s",
            "kv_max",
            "preemptions",
            "running_max",
            "asked_tokens",
            "hit_tokens",
            "stage_wait_s",
        )
    ]
)
"""Sums over an instance's life: seconds, tokens, integrals over time of sequences running and of blocks used;
tokens of prompts that entered, and those of them found in the cache; seconds in which its micro-batches waited for
others of the same pipeline, a part of `busy_s`."""
SERIES = np.dtype(
    [(name, "f8") for name in ("start", "seconds", "steps", "decoding", "prompts", "waiting", "used")]
    + [("instance", "i8")]
)
"""One event of an instance: how long it took, how many steps, with what batch."""
LIMITS = np.dtype(
    [
        (name, "f8")
        for name in (
            "pair_s",
            "kv_s",
            "window_kv_s",
            "per_sequence_s",
            "prompt_floor_s",
            "window_share",
            "swap_block_s",
            "prompt_token_s",
            "reach",
            "index_share",
        )
    ]
    + [
        (name, "i8")
        for name in (
            "window",
            "captured",
            "budget",
            "max_seqs",
            "block",
            "blocks",
            "watermark",
            "poll",
            "mixed",
            "chunked",
            "reserve",
            "static",
            "router",
            "concurrency",
            "every",
            "seed",
            "caching",
            "early",
            "reserve_length",
            "sequence_blocks",
            "ratio_start",
            "ratio_least",
            "ratio_decay",
            "retract",
            "least_made",
            "taken_last",
            "swap_blocks",
            "ranks",
            "cp",
            "tokens_per_step",
            "step_tokens",
            "lookahead",
        )
    ]
)
"""Costs per pair, per token in the cache, per sequence, per iteration with prompts and per token of a prompt, in
seconds; `ranks` of attention data parallelism, each of which computes whole prompts; limits of a batch and of the
cache; switches of the policy (0 or 1). `every`: keep one event in that many; 0 keeps none."""
MILLION = 1_000_000
EXPECTED_MOST = 4096
"""Tokens of one answer that are expected at most (SGLang, SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION)."""
CANCELLED = 7
"""It was taken back by a joint of its program."""
HELD, MOVING, READY = range(8, 11)
"""Further states: a prompt whose cache another instance waits for; an answer that has blocks, whose cache is on its
way or not computed yet; one whose cache has come."""
PREFILL_FIRST, TRANSFER_FIRST, DECODE_FIRST = range(3)
KV_TRANSFER = np.dtype(
    [(name, "f8") for name in ("control",)]
    + [(name, "i8") for name in ("pieces", "chunk", "early", "first", "router", "entries")]
)
"""Scalars of `fleet.KvTransfer`; `entries`: lanes that take requests in."""
JOINT = np.dtype(
    [(name, "f8") for name in ("seconds", "over")]
    + [(name, "i4") for name in ("server", "state", "calls_from", "calls_to", "joints_from", "joints_to")],
    align=True,
)
"""A joint of a graph of calls: seconds of service, when it was over, class of its tool servers or −1, its state, and
what it cancels."""
OPEN, QUEUED, IN_SERVICE, OVER, TAKEN_BACK = range(5)
"""States of a joint."""
TOOLS = np.dtype([(name, "i8") for name in ("free", "first", "waiting")])
"""A class of tool servers: free slots, where its queue lies among those of all, and how many joints wait in it."""

COUNTS = np.dtype([(name, "i8") for name in ("sent", "touched", "tasks_over", "seen", "kept")])
"""Requests sent of `Loop.order`; instances that something came to at this instant; tasks that are over and not acted on
yet; iterations and runs that ended, and those of them kept in the series."""
