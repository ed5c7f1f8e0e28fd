"""Documents of a training batch, and the rows of tokens that they are packed into."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from windtunnel.arrays import Floats
from windtunnel.graph.length_laws import LAWS
from windtunnel.specs.batches import DocumentLengths

_CHUNK = 256


@dataclass(frozen=True, slots=True)
class PackedRows:
    """The rows of one batch."""

    squares: Floats
    """(rows,) sum of the squared lengths of a row's documents; padding does no attention."""
    used: Floats
    """(rows,) tokens of a row that belong to documents; its other tokens are padding."""
    documents: Floats
    """(documents,) length in tokens of each document, in the order of the rows."""


def drawn(spec: DocumentLengths, seq_len: int, tokens: float, rng: Generator) -> Floats:
    """Lengths of drawn documents that hold `tokens` tokens or more; longer ones are cut into pieces of `seq_len`."""
    parts: list[Floats] = []
    total = 0.0
    top = float(spec.max or np.iinfo(np.int64).max)
    while total < tokens:
        values = np.rint(LAWS[spec.distribution](spec, rng, _CHUNK)).clip(spec.min or 1, top)
        whole, rest = np.divmod(values, seq_len)
        pieces = np.repeat(np.where(whole > 0, float(seq_len), rest), np.where(whole > 0, whole, 1).astype(int))
        tails = rest[(whole > 0) & (rest > 0)]
        values = np.concatenate([pieces, tails])
        parts.append(values)
        total += float(values.sum())
    return np.concatenate(parts)


def packed(spec: DocumentLengths, seq_len: int, rows: int, rng: Generator) -> PackedRows:
    """Draw the documents of one batch and pack them into rows."""
    return {"cut": _cut, "best_fit": _best_fit, "padded": _padded}[spec.packing](spec, seq_len, rows, rng)


def _cut(spec: DocumentLengths, seq_len: int, rows: int, rng: Generator) -> PackedRows:
    total = float(rows) * seq_len
    ends = np.minimum(drawn(spec, seq_len, total, rng).cumsum(), total)
    cuts = np.unique(np.concatenate([ends, np.arange(1, rows + 1) * float(seq_len)]))
    length = np.diff(cuts, prepend=0.0)
    row = np.minimum((np.ceil(cuts / seq_len) - 1).astype(int), rows - 1)
    return PackedRows(np.bincount(row, length**2, rows).astype(np.float64), np.full(rows, float(seq_len)), length)


def _best_fit(spec: DocumentLengths, seq_len: int, rows: int, rng: Generator) -> PackedRows:
    documents = np.sort(drawn(spec, seq_len, float(rows) * seq_len, rng))[::-1]
    room: list[tuple[float, int]] = [(float(seq_len), i) for i in range(rows)]
    squares, used = np.zeros(rows), np.zeros(rows)
    placed = []
    for length in documents.tolist():
        at = bisect_left(room, (length, -1))
        if at == len(room):
            continue  # it waits for the next batch
        left, row = room.pop(at)
        squares[row] += length**2
        used[row] += length
        placed.append(length)
        if left > length:
            insort(room, (left - length, row))
    return PackedRows(squares, used, np.array(placed))


def _padded(spec: DocumentLengths, seq_len: int, rows: int, rng: Generator) -> PackedRows:
    parts = LAWS[spec.distribution](spec, rng, rows)
    used = np.rint(parts).clip(spec.min or 1, min(spec.max or seq_len, seq_len))
    return PackedRows(np.full(rows, float(seq_len) ** 2), used, used)
