"""What requests have in common, as chains of nodes: the content that a prefix cache can find again.

A node is a stretch of tokens that follows one other node only: a system prompt, the turns of a session, a block of a
trace. A request's chain spells its prompt and its answer, so a later turn finds both. Sizes are in whole blocks of the
cache; what crosses a block is found only with all of the block, as in the engines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Int32s, Ints
from windtunnel.serving.event_loop.requests import Requests


@dataclass(frozen=True, slots=True)
class Chains:
    """Content of R requests over U nodes."""

    start: Ints
    """(R + 1,) where each request's nodes begin."""
    nodes: Int32s
    """(start[R],) nodes from the first token on."""
    size: Int32s
    """(U,) blocks of each node."""
    common: int = 0
    """The first so many are in the chains of several requests."""


def chains_of(requests: Requests, block: int, shared_tokens: int = 0) -> Chains:
    """Chains of requests: from a trace's blocks, or from sessions and a prefix that all share.

    Args:
        requests: lengths, follow-ups, `prefix_tokens` and `prefix_blocks`.
        block: tokens of a block of the cache.
        shared_tokens: first tokens that all prompts share; no prompt is shorter.
    """
    if requests.content is not None:
        return _common_first(requests.content.start, requests.content.nodes, requests.content.blocks(block))
    if requests.prefix_blocks is None and shared_tokens < block and (requests.follow < 0).all():
        own = np.arange(len(requests) + 1)
        whole = requests.input_tokens.astype(np.int64) + requests.output_tokens
        return Chains(own, own[:-1].astype(np.int32), (whole // block).astype(np.int32))
    if requests.prefix_blocks is not None:
        found = _from_blocks(requests, block)
    else:
        found = _from_sessions(requests, block, shared_tokens)
    return _common_first(found.start, found.nodes, found.size)


def _common_first(start: Ints, nodes: Int32s, size: Int32s) -> Chains:
    """Chains with nodes numbered anew: those of several requests come first."""
    single = np.bincount(nodes, minlength=len(size)) < 2
    order = np.argsort(single, kind="stable")
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order))
    return Chains(start, number[nodes], size[order], int(len(order) - single.sum()))


def _from_blocks(requests: Requests, block: int) -> Chains:
    """A node for each block id, and one for what follows the last of them (the answer)."""
    blocks = requests.prefix_blocks
    assert blocks is not None
    count = len(requests)
    lengths = np.diff(blocks.start)
    owner = np.repeat(np.arange(count), lengths)
    place = np.arange(len(blocks.ids)) - np.repeat(blocks.start[:-1], lengths)
    prompt = requests.input_tokens.astype(np.int64)
    first = np.minimum(place * blocks.block_size, prompt[owner]) // block
    last = np.minimum((place + 1) * blocks.block_size, prompt[owner]) // block
    ids = int(blocks.ids.max(initial=-1)) + 1
    size = np.zeros(ids + count, np.int32)
    size[:ids] = np.iinfo(np.int32).max
    np.minimum.at(size, blocks.ids, (last - first).astype(np.int32))
    known = np.minimum(lengths * blocks.block_size, prompt)
    size[ids:] = (prompt + requests.output_tokens) // block - known // block
    start = np.zeros(count + 1, np.int64)
    start[1:] = np.cumsum(lengths + 1)
    nodes = np.empty(start[-1], np.int32)
    nodes[np.arange(len(blocks.ids)) + owner] = blocks.ids
    nodes[start[1:] - 1] = ids + np.arange(count)
    return Chains(start, nodes, size)


def _from_sessions(requests: Requests, block: int, shared_tokens: int) -> Chains:
    """Node 0 is the shared prefix, node r + 1 what request r adds to its session."""
    count = len(requests)
    before = np.full(count, -1, np.int64)
    some = np.flatnonzero(requests.follow >= 0)
    before[requests.follow[some]] = some
    whole = requests.input_tokens.astype(np.int64) + requests.output_tokens
    before[requests.input_tokens < whole[np.maximum(before, 0)]] = -1  # a turn that does not hold the one before
    begin = np.where(before >= 0, whole[np.maximum(before, 0)], shared_tokens)
    size = np.zeros(count + 1, np.int32)
    size[0] = shared_tokens // block
    size[1:] = whole // block - begin // block
    depth = np.ones(count, np.int64)
    at = before.copy()
    while (at >= 0).any():
        depth += at >= 0
        at = np.where(at >= 0, before[np.maximum(at, 0)], -1)
    lead = 1 if shared_tokens >= block else 0
    start = np.zeros(count + 1, np.int64)
    start[1:] = np.cumsum(depth + lead)
    nodes = np.zeros(start[-1], np.int32)
    at, own = start[1:] - 1, np.arange(count)
    rest = own.copy()
    while len(rest):  # each pass writes one more ancestor of every request that has one
        nodes[at[rest]] = own[rest] + 1
        at[rest] -= 1
        own[rest] = before[own[rest]]
        rest = rest[own[rest] >= 0]
    return Chains(start, nodes, size)
