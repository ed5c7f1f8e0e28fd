"""Interleaved 1F1B: each stage holds v model chunks, visited in groups of p micro-batches."""

from __future__ import annotations

import numpy as np

from windtunnel.errors import Problem
from windtunnel.schedules.order import looped_placement, table, weave
from windtunnel.schedules.spec import ScheduleSpec
from windtunnel.schedules.table import B, InstructionTable, ScheduleCosts, ScheduleLimits


def construct(p: int, m: int, v: int, costs: ScheduleCosts | None, limits: ScheduleLimits | None) -> InstructionTable:
    """Stage s warms up with 2 (p − 1 − s) + (v − 1) p chunk forwards; with m = p every forward comes first.

    Forward i works on chunk (i div p) mod v and micro-batch (i div (p·v)) p + i mod p; backwards follow the same
    sequence with the chunks reversed.

    Source: Narayanan et al. 2021, section 2.2; the warm-up counts and the case m = p are those that Megatron-LM ran in
    its published results (later versions of Megatron Core treat m = p like any other m).
    """
    return interleave(p, m, v, all_first=m == p)


def interleave(p: int, m: int, v: int, *, all_first: bool) -> InstructionTable:
    """The table; with `all_first` every forward comes before any backward."""
    n = m * v
    warmup = np.full(p, n) if all_first else 2 * np.arange(p - 1, -1, -1) + (v - 1) * p
    kind, ordinal = weave(n, warmup)
    i = np.arange(n, dtype=np.int32)
    chunk_of = np.stack([(i // p) % v, v - 1 - (i // p) % v]).astype(np.int32)
    micro_batch_of = (i // (p * v) * p + i % p).astype(np.int32)
    chunk = chunk_of[(kind == B).astype(np.int8), ordinal]
    return table(SCHEDULE.id, m, v, kind, micro_batch_of[ordinal], chunk, looped_placement(p, v), False)


def check(p: int, m: int, v: int) -> Problem | None:
    """Megatron's size rules: at least two chunks, and whole groups of p micro-batches."""
    if v < 2:
        return Problem("vpp", "schedule interleaved_1f1b needs at least two model chunks per stage; use 2, or 1f1b", v)
    if m % p:
        near = " or ".join(str(x) for x in (m // p * p, (m // p + 1) * p) if x)
        return Problem("micro_batches", f"schedule interleaved_1f1b needs a multiple of pp = {p}; nearest {near}", m)
    return None


SCHEDULE = ScheduleSpec(
    id="interleaved_1f1b",
    title="Interleaved 1F1B",
    source="Narayanan et al. 2021, Efficient Large-Scale Language Model Training, https://arxiv.org/abs/2104.04473",
    construct=construct,
    check=check,
    split_backward=False,
)
