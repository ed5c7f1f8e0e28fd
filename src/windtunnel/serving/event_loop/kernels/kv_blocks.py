"""Blocks of the KV cache: what sequences take, and how many tokens a number of decode steps makes.

All sequences of an instance share one clock of tokens. Sequences that need a new block at the same step are counted
together, so that nothing is touched per step.
"""

# Numba's decorators and record arrays have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return,call-overload,no-untyped-call"

from __future__ import annotations

import numpy as np

from windtunnel.jit import helper
from windtunnel.serving.event_loop.kernels.records import MILLION
from windtunnel.serving.event_loop.kernels.state import Array, Record


@helper
def blocks_for(tokens: int, block: int) -> int:
    """Blocks that hold so many tokens."""
    return (tokens + block - 1) // block


@helper
def growth(turns: Array, step: int, steps: int, decoding: int, block: int) -> int:
    """Blocks that the next `steps` decode steps take: `turns[(slots − step) mod block]` counts sequences."""
    whole = steps // block
    out = whole * decoding
    for i in range(whole * block, steps):
        out += turns[(-(step + i)) % block]
    return out


@helper
def steps_with_room(turns: Array, step: int, decoding: int, block: int, free: int, wanted: int) -> int:
    """Decode steps, at most `wanted`, that the free blocks allow."""
    whole = min(free // decoding, wanted // block)
    out = whole * block
    free -= whole * decoding
    while out < wanted:
        free -= turns[(-(step + out)) % block]
        if free < 0:
            break
        out += 1
    return out


@helper
def extra_blocks(q: Record, limits: Record) -> int:
    """Blocks that a sequence takes beside those of its tokens: recurrent states, layers that keep a window."""
    if limits.window_share == 0.0:
        return limits.sequence_blocks
    kept = float(min(q.input + q.output, limits.window)) * limits.window_share
    return limits.sequence_blocks + int(np.ceil(kept / limits.block))


@helper
def wanted_tokens(q: Record, limits: Record) -> int:
    """Tokens that a request takes blocks for when it enters."""
    if limits.reserve:
        return max(q.input + q.output, limits.reserve_length) + limits.lookahead
    return q.input + q.made + min(q.swapped, 0) + limits.lookahead


@helper
def gained_tokens(instance: Record, limits: Record, steps: int) -> int:
    """Tokens that each decoding sequence makes in the next `steps` steps."""
    if limits.tokens_per_step == MILLION:
        return steps
    return (instance.fraction + steps * limits.tokens_per_step) // MILLION


@helper
def steps_for(instance: Record, limits: Record, tokens: int) -> int:
    """Steps in which each decoding sequence makes so many tokens at least."""
    if limits.tokens_per_step == MILLION:
        return tokens
    return (tokens * MILLION - instance.fraction + limits.tokens_per_step - 1) // limits.tokens_per_step


@helper
def steps_within(instance: Record, limits: Record, tokens: int) -> int:
    """Steps in which each decoding sequence makes so many tokens at most."""
    return ((tokens + 1) * MILLION - 1 - instance.fraction) // limits.tokens_per_step


@helper
def next_growth(instance: Record, turns: Array, limits: Record) -> int:
    """Blocks that the next decode step takes."""
    ahead = gained_tokens(instance, limits, 1)
    if ahead == 1:
        return turns[(-instance.step) % limits.block]
    return growth(turns, instance.step, ahead, instance.decoding, limits.block)


@helper
def decoding_kv_tokens(instance: Record) -> float:
    """Tokens in the cache of decoding sequences, the share of the next one included."""
    return instance.kv + instance.decoding * (instance.fraction * 1e-6)


@helper
def decoded_tokens(instance: Record, q: Record) -> int:
    """Tokens that a decoding request has in the cache: the prompt and what it decoded since."""
    return q.input + q.output - 1 - (q.finish_step - instance.step)


@helper
def too_long(q: Record, limits: Record) -> bool:
    """Whether no cache of a pool could ever hold a request."""
    most = max(q.input + q.output, limits.reserve_length if limits.reserve else 0)
    return blocks_for(most + 2 * limits.lookahead, limits.block) + extra_blocks(q, limits) > limits.blocks
