"""A pipeline stage on a peer behind a slow link: how much of the time it computes, and what link it needs.

A micro-batch's activation comes in, goes forward and on; its gradient comes in, goes backward and on. Receiving,
computing and sending are three streams, and a peer holds a few micro-batches at a time. Products grow with the square
of the hidden size, what is sent with its first power, so that larger models need slower links.

Source: Ryabinin et al. 2023 (arXiv 2301.11913), section 3.1 (the square-cube law of distributed training).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel import engine
from windtunnel.program.builder import ProgramBuilder, SlotDemand

_TURNS = 4
"""Times that all held micro-batches are replaced before those that are looked at, and while."""
_CLOSE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerStage:
    """One micro-batch on one stage."""

    forward_s: float
    backward_s: float
    boundary_bytes: float
    """Of an activation, and of its gradient."""
    held: int = 4
    """Micro-batches that a peer has at a time, so that one is computed while others travel."""
    away_s: float = 0.0
    """Between sending an activation on and the return of its gradient, next to the peer's own links."""


def transformer_stage(
    hidden: int, layers: int, seq_len: int, flop_per_s: float, *, bits: float = 16.0, recomputed: bool = False
) -> PeerStage:
    """Equal transformer layers on one sequence.

    Args:
        hidden: Size h; a layer has 12·h² weights.
        layers: Of the stage.
        seq_len: Tokens s of a micro-batch.
        flop_per_s: That the peer reaches on such products.
        bits: Of a value of an activation on its way.
        recomputed: Whether the backward computes the forward again.
    """
    forward = layers * (24.0 * hidden**2 * seq_len + 4.0 * hidden * seq_len**2) / flop_per_s
    return PeerStage(
        forward_s=forward,
        backward_s=forward * (3.0 if recomputed else 2.0),
        boundary_bytes=seq_len * hidden * bits / 8.0,
    )


def stage_utilisation(stage: PeerStage, bytes_per_s: float, *, latency_s: float = 0.0) -> float:
    """Computing seconds over all seconds, in the middle of a long run.

    Args:
        stage: What is computed and sent.
        bytes_per_s: Of the peer's link, in each direction.
        latency_s: One way.
    """
    b, settled = ProgramBuilder(), _TURNS * stage.held
    count = 2 * settled + stage.held  # the last ones drain: they are not looked at
    links = [b.rate(name, bytes_per_s) for name in ("up", "down")]
    core = b.slot_pool("compute", 1)
    moves = stage.boundary_bytes / bytes_per_s
    asked, comes, ahead, goes, _, back_in, back, back_out = range(8)
    seconds = np.array(
        [
            2.0 * latency_s,
            moves,
            stage.forward_s,
            moves,
            2.0 * latency_s + stage.away_s,
            moves,
            stage.backward_s,
            moves,
        ]
    )
    computes = np.isin(np.arange(8), (ahead, back))
    first = b.add(
        np.tile(seconds, count),
        slots=SlotDemand(pool=np.tile(np.where(computes, core, -1), count), slots=np.tile(computes * 1, count)),
    )
    rows = first + np.arange(8 * count).reshape(count, 8)
    b.add_dependencies(rows[:, 1:], rows[:, :-1])
    b.add_dependencies(rows[stage.held :, asked], rows[: -stage.held, back])
    for link, phases in zip(links, ((goes, back_out), (comes, back_in)), strict=True):
        b.add_rates(rows[:, phases], link, stage.boundary_bytes)
    ends = engine.simulate(*b.build()).end_s[rows[:, back]]
    return float(settled * (stage.forward_s + stage.backward_s) / (ends[2 * settled - 1] - ends[settled - 1]))


def stage_bytes_per_s(utilisation: float, stage: PeerStage, *, latency_s: float = 0.0) -> float | None:
    """Least bytes/s of a peer's link with which it computes for a share of its time; None where none is enough.

    Args:
        utilisation: The share, from 0 to below 1.
        stage: What is computed and sent.
        latency_s: One way.
    """

    def enough(rate: float) -> bool:
        return stage_utilisation(stage, rate, latency_s=latency_s) >= utilisation

    high = 1e6
    while not enough(high):
        high *= 16.0
        if high > 1e18:
            return None
    low = high / 16.0
    while enough(low):
        low, high = low / 16.0, low
    while high / low > 1.0 + _CLOSE:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
