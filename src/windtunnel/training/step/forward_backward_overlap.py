"""A forward and a backward that run as one unit: exchanges of either behind products of the other (DualPipe).

Both passes are simulated on one device, each with kernels in its own order. Kernels of the two take turns: every kernel
asks for all SMs, so that together they are never faster than one after the other; what overlap saves is time in which
one pass only waits for a collective.

Source: DeepSeek-AI 2024, https://arxiv.org/abs/2412.19437, section 3.2.1 (which SMs go to which pass is tuned by hand
there; here kernels share them evenly while both have work).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Rows
from windtunnel.cost.coefficients import Coefficients
from windtunnel.pricing.segments import link_seconds, simulate_segments
from windtunnel.pricing.streams import simulate_streams
from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.schedules.table import B, F, InstructionTable, W
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.stage_costs.stage_costs import StageCosts

_MOST_LAYERS = 8.0
"""Of a pass that are simulated; longer ones repeat them."""


@dataclass(frozen=True, slots=True)
class OverlappedPair:
    """One kind of unit."""

    seconds: float
    alone_s: float
    """Of its passes one after the other."""
    busy_s: dict[str, float]
    """Class of time → seconds; sums to `seconds`."""


def pairs_of(
    parts: StageCosts, table: InstructionTable, part: Rows, cluster: ClusterSpec, coefficients: Coefficients
) -> tuple[Rows, tuple[OverlappedPair, ...]]:
    """Kind of pair of each row, −1 for none, and the kinds.

    Args:
        parts: what passes cost.
        table: the schedule.
        part: virtual stage of each row.
        cluster: the device.
        coefficients: of device and framework.
    """
    first, last = table.units()
    kind_of = np.full(len(table), -1, np.int64)
    heads = np.flatnonzero((first == np.arange(len(table))) & (last - first == 2) & (table.kind == F))
    kinds: dict[tuple[int, int], int] = {}
    found: list[OverlappedPair] = []
    alike: dict[tuple[object, object], OverlappedPair] = {}
    for forward, backward in np.unique(np.stack([part[heads], part[heads + 1]], axis=1), axis=0).tolist():
        key = (parts.uses[forward], parts.uses[backward])
        if key not in alike:
            alike[key] = _pair(parts, forward, backward, cluster, coefficients)
        kinds[forward, backward] = len(found)
        found.append(alike[key])
    for row in heads.tolist():
        kind_of[row : row + 3] = kinds[int(part[row]), int(part[row + 1])]
    return kind_of, tuple(found)


def _chain(parts: StageCosts, k: int, directions: tuple[int, ...], cut: float) -> list[Launch]:
    """Launches of one pass in order; the embedding first and the head last, backward the other way round."""
    uses = sorted(parts.uses[k], key=lambda use: _rank(parts.segments[use[0][0]].name))
    if directions[0] != F:
        uses = uses[::-1]
    out: list[Launch] = []
    for segments, number in uses:
        name = parts.segments[segments[0]].name
        times = number if name in ("embedding", "head") else number / cut
        for i in range(max(round(times), 1)):
            for direction in directions:
                offset = len(out)
                out += [
                    replace(
                        x,
                        after=[offset + d for d in x.after],
                        stream=COMPUTE if x.stream == COMPUTE else COMM,
                        sm=1.0 if x.stream == COMPUTE else x.sm,
                    )
                    for x in parts.segments[segments[direction]].launches
                ]
                if i or directions.index(direction):  # a layer begins when the one before has ended, exchanges too
                    _begin_after(out, offset)
    return out


def _begin_after(launches: list[Launch], offset: int) -> None:
    """What begins a stretch of launches waits for the last launch before it, of either stream."""
    before = [i for i in range(offset) if i == offset - 1 or launches[i].stream != launches[offset - 1].stream]
    ends = {max(i for i in before if launches[i].stream == s) for s in {launches[i].stream for i in before}}
    for x in launches[offset:]:
        if not x.after:
            x.after.extend(sorted(ends))


def _rank(name: str) -> int:
    return {"embedding": 0, "head": 2}.get(name, 1)


def _woven(techniques: Sequence[Applied], both: list[Segment], cluster: ClusterSpec) -> Segment | None:
    """Both passes as a technique runs them; None where none does.

    Raises:
        ValueError: it does other work than the passes have.
    """
    for technique in techniques:
        made = technique.on_pair(both[0], both[1], cluster)
        if made is None:
            continue
        for name in ("flop", "hbm_bytes", "up_bytes", "out_bytes"):
            had, has = (sum(getattr(x, name) for s in segments for x in s.launches) for segments in (both, [made]))
            if abs(has - had) > 1e-6 * had:
                who = technique.technique.id
                raise ValueError(f"technique {who}: {name} of a pair is {has:g}, of its passes {had:g}")
        return made
    return None


def _pair(
    parts: StageCosts, forward: int, backward: int, cluster: ClusterSpec, coefficients: Coefficients
) -> OverlappedPair:
    alone = float(parts.seconds[F, forward] + parts.seconds[B, backward] + parts.seconds[W, backward])
    layers = float(max(parts.layers[forward], parts.layers[backward], 1))
    cut = max(layers / _MOST_LAYERS, 1.0)
    both = [
        Segment("forward", "F", _chain(parts, forward, (F,), cut)),
        Segment("backward", "B", _chain(parts, backward, (B, W), cut)),
    ]
    woven = _woven(parts.techniques, both, cluster)
    if woven is None:
        none = [0.0, 0.0]
        one, other = simulate_segments(both, cluster, coefficients, none, none, device_of=[0, 0])
        device = max(one.device_s, other.device_s) * cut
    else:
        both = [woven]
        device = float(simulate_streams(both, cluster.device.memory_bytes_per_s)[0])
        device = max(device, float(link_seconds(woven.launches, cluster).sum(axis=0).max())) * cut
    host = sync = 0.0
    for k, directions in ((forward, (F,)), (backward, (B, W))):
        for segments, number in parts.uses[k]:
            for d in directions:
                host += parts.segment_times[segments[d]].host_s * number
                sync += parts.segment_times[segments[d]].sync_s * number
    big = max(host, device)
    q = coefficients.host_power
    total = device if not host else max(device, big * ((device / big) ** q + (host / big) ** q) ** (1.0 / q))
    busy: defaultdict[str, float] = defaultdict(float)
    waits: defaultdict[str, float] = defaultdict(float)
    for segment in both:
        for x in segment.launches:
            (waits if x.stream.startswith(COMM) else busy)[x.tag] += x.alone_s * cut
    computing, waiting = sum(busy.values()), sum(waits.values())
    if computing > device:  # kernels take turns, unless a technique shares SMs out between them
        busy = defaultdict(float, {name: value * device / computing for name, value in busy.items()})
    elif waiting:
        for name, value in waits.items():
            busy[name] += (device - computing) * value / waiting
    if total + sync > device:
        busy["host"] += total + sync - device
    return OverlappedPair(total + sync, alone, dict(busy))
