"""What prompts and answers consist of, token by token: a forest of stretches, before blocks of a cache cut it.

`Requests.content` holds it where traffic knows more than sessions and one shared prefix: several tenants with prefixes
of their own, agents whose calls build on each other's answers. `prefixes.chains_of` puts it into whole blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Int32s, Ints


@dataclass(frozen=True, slots=True)
class Content:
    """Stretches of R requests. A stretch follows one other stretch only, or begins prompts."""

    start: Ints
    """(R + 1,) where each request's stretches begin."""
    nodes: Int32s
    """(start[R],) stretches from the first token on; the last ends with the answer."""
    tokens: Ints
    """(U,) tokens of each stretch."""

    def __len__(self) -> int:
        return len(self.start) - 1

    def found(self, order: Ints, input_tokens: Int32s) -> Int32s:
        """(R,) first tokens of each prompt that an earlier request of `order` holds, its last token excepted."""
        rank = np.empty(len(self), np.int64)
        rank[order] = np.arange(len(order))
        lengths = np.diff(self.start)
        own = np.repeat(rank, lengths)
        first = np.full(len(self.tokens), len(self), np.int64)
        np.minimum.at(first, self.nodes, own)
        place = np.arange(len(self.nodes)) - np.repeat(self.start[:-1], lengths)
        open_ = np.repeat(lengths, lengths)
        np.copyto(open_, place, where=first[self.nodes] >= own)
        least = np.zeros(len(self), np.int64)
        filled = lengths > 0
        least[filled] = np.minimum.reduceat(open_, self.start[:-1][filled])
        known = np.concatenate([[0], self.tokens[self.nodes].cumsum()])
        out: Int32s = np.minimum(known[self.start[:-1] + least] - known[self.start[:-1]], input_tokens - 1).astype(
            np.int32
        )
        return out

    def blocks(self, block: int) -> Int32s:
        """(U,) whole blocks of each stretch: what crosses the end of a block belongs to the next stretch."""
        lengths = np.diff(self.start)
        ends = self.tokens[self.nodes].cumsum()
        before = np.repeat(np.concatenate([[0], ends])[self.start[:-1]], lengths)
        ends = ends - before
        size = np.zeros(len(self.tokens), np.int32)
        size[self.nodes] = ends // block - (ends - self.tokens[self.nodes]) // block
        return size


def joined(parts: Sequence[Content]) -> Content:
    """Contents one after the other, with nothing in common."""
    starts, nodes, tokens = [np.zeros(1, np.int64)], [], []
    at = count = 0
    for one in parts:
        starts.append(one.start[1:] + at)
        nodes.append(one.nodes + np.int32(count))
        tokens.append(one.tokens)
        at, count = at + int(one.start[-1]), count + len(one.tokens)
    return Content(np.concatenate(starts), np.concatenate(nodes).astype(np.int32), np.concatenate(tokens))


def taken(content: Content, order: Ints) -> Content:
    """Contents of requests in another order."""
    lengths = np.diff(content.start)[order]
    start = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
    at = np.repeat(content.start[order] - start[:-1], lengths) + np.arange(start[-1])
    return Content(start, content.nodes[at], content.tokens)


def merged(content: Content, roots: Int32s, tokens: int) -> Content:
    """The same with every first stretch replaced: request r begins with prefix `roots[r]`, each of so many tokens.

    First stretches must hold at least those tokens; what they hold beyond stays their own.
    """
    count = int(roots.max(initial=-1)) + 1
    lengths = np.diff(content.start) + 1
    start = np.concatenate([[0], lengths.cumsum()]).astype(np.int64)
    nodes = np.empty(start[-1], np.int32)
    inner = np.ones(start[-1], np.bool_)
    inner[start[:-1]] = False
    nodes[inner] = content.nodes + count
    nodes[start[:-1]] = roots
    own = content.tokens.copy()
    first = np.unique(content.nodes[content.start[:-1]])
    own[first] -= tokens
    return Content(start, nodes, np.concatenate([np.full(count, tokens, np.int64), own]))
