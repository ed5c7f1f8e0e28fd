"""Which algorithm for my link? Utilisation and time to target over bandwidths, latencies and lengths of rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.charts.chart import Axis, Chart
from windtunnel.charts.colours import DARK_TEXT, IDLE, SERIES, shade
from windtunnel.charts.forms import Cell, Grid, horizontal, line, number_ticks
from windtunnel.learning.timing.links import Link
from windtunnel.learning.timing.lock_step import LockStepRun
from windtunnel.learning.timing.on_target import messages_on_target
from windtunnel.learning.timing.schedule import read_schedule
from windtunnel.learning.timing.target import Target

GBITS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 400.0)
LATENCIES_S = (1e-5, 1e-3, 1e-2, 5e-2, 0.2)
GOOD = 0.9
"""Share of the time computing that a link has to allow, unless another is asked for."""
_ROUNDS = 12
PALEST = 0.8
"""Shade of the algorithm that exchanges least; links that none is good enough for are grey."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An algorithm on the map."""

    name: str
    algorithm: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    steps_ratio: float = 1.0
    """Steps to the target over those of data parallelism, where a comparison has measured them."""

    @property
    def period(self) -> int:
        """Local steps of a round."""
        return int(self.knobs.get("period", 1))


CANDIDATES = (
    Candidate(name="data parallel", algorithm="data_parallel", knobs={"bits": 16}),
    Candidate(name="DiLoCo, H 10", algorithm="diloco", knobs={"period": 10, "bits": 16}),
    Candidate(name="DiLoCo, H 100", algorithm="diloco", knobs={"period": 100, "bits": 16}),
    Candidate(
        name="Streaming, H 100",
        algorithm="streaming-diloco",
        knobs={"period": 100, "fragments": 8, "late": 5, "layerwise": True},
    ),
    Candidate(name="DiLoCo, H 500", algorithm="diloco", knobs={"period": 500, "bits": 16}),
    Candidate(
        name="Streaming, H 500",
        algorithm="streaming-diloco",
        knobs={"period": 500, "fragments": 8, "late": 25, "layerwise": True},
    ),
)
"""From the one that exchanges most to the one that exchanges least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMap:
    """Utilisation of each algorithm on each link."""

    candidates: tuple[Candidate, ...]
    gbits: tuple[float, ...]
    latencies_s: tuple[float, ...]
    utilisation: Floats
    """Shape (candidates, latencies, bandwidths)."""

    def chosen(self, good: float = GOOD) -> list[list[int | None]]:
        """Candidate for each (latency, bandwidth), None where none is good enough.

        Where steps to the target were measured it is the one that is there first; else the one that exchanges most
        among those that compute for the share `good` of the time, since exchanging less costs loss.
        """
        ratios = np.array([c.steps_ratio for c in self.candidates])
        if np.any(ratios != 1.0):
            best = np.argmax(self.utilisation / ratios[:, None, None], axis=0)
            return [[int(i) for i in row] for row in best]
        enough = self.utilisation >= good
        first = np.where(enough.any(axis=0), enough.argmax(axis=0), -1)
        return [[None if i < 0 else int(i) for i in row] for row in first]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "algorithms": [c.name for c in self.candidates],
            "gbit_per_s": list(self.gbits),
            "latency_s": list(self.latencies_s),
            "utilisation": self.utilisation.round(4).tolist(),
        }


def link_map(
    target: Target,
    workers: int,
    *,
    candidates: Sequence[Candidate] = CANDIDATES,
    gbits: Sequence[float] = GBITS,
    latencies_s: Sequence[float] = LATENCIES_S,
) -> LinkMap:
    """Time each algorithm on each link; nothing is learned.

    Args:
        target: What is trained; of its link, sites and what links meet in stay, bandwidth and latency do not.
        workers: How many there are.
        candidates: From the one that exchanges most to the one that exchanges least.
        gbits: Bandwidths of a worker's link, ascending.
        latencies_s: One way.
    """
    out = np.empty((len(candidates), len(latencies_s), len(gbits)))
    base = target.link or Link(up_bytes_per_s=1.0, down_bytes_per_s=1.0)
    for i, one in enumerate(candidates):
        steps = max(_ROUNDS * one.period, 40)
        schedule = read_schedule(messages_on_target(one.algorithm, one.knobs, target, workers, steps), steps)
        for j, latency in enumerate(latencies_s):
            for k, gbit in enumerate(gbits):
                rate = gbit * 1e9 / 8
                link = replace(base, up_bytes_per_s=rate, down_bytes_per_s=rate, latency_s=latency)
                run = LockStepRun.of(schedule, replace(target, link=link), workers, steps, 1)
                out[i, j, k] = run.utilisation(run.begins())
    return LinkMap(candidates=tuple(candidates), gbits=tuple(gbits), latencies_s=tuple(latencies_s), utilisation=out)


def algorithm_chart(found: LinkMap, *, good: float = GOOD) -> Chart:
    """Bandwidth × latency → algorithm: cells, the paler the less it exchanges."""
    rates, delays = [rate_text(g) for g in found.gbits], [delay_text(s) for s in found.latencies_s]
    cells = []
    last = max(len(found.candidates) - 1, 1)
    for j, row in enumerate(found.chosen(good)):
        for k, i in enumerate(row):
            if i is None:
                best = int(np.argmax(found.utilisation[:, j, k]))
                used = float(found.utilisation[best, j, k])
                text, colour, ink = f"{used:.0%}", IDLE, DARK_TEXT
                told = f"{found.candidates[best].name} computes {used:.0%} of the time, and none does better"
            else:
                used = float(found.utilisation[i, j, k])
                colour, ink = shade(PALEST * i / last)
                text = short_name(found.candidates[i].name)
                told = f"{found.candidates[i].name} computes {used:.0%} of the time"
            at = f"{rates[k]}, {delays[j]}"
            cells.append(Cell(x=rates[k], y=delays[j], colour=colour, text=text, text_colour=ink, told=f"{at}: {told}"))
    title = f"The algorithm that exchanges most and still computes {good:.0%} of the time"
    if any(c.steps_ratio != 1.0 for c in found.candidates):
        title = "The algorithm that is at the target first"
    return Grid.of(title, cells, x="bandwidth of a worker's link", y="latency", across=rates, down=delays)


def utilisation_chart(found: LinkMap, *, latency: int = 0) -> Chart:
    """Utilisation of each algorithm over bandwidths, at one of the latencies."""
    series = {c.name: SERIES[i % len(SERIES)] for i, c in enumerate(found.candidates)}
    layers = []
    for i, one in enumerate(found.candidates):
        used = found.utilisation[i, latency]
        told = [f"{one.name} at {rate_text(g)}: {u:.0%}" for g, u in zip(found.gbits, used, strict=True)]
        layers += line(found.gbits, used.tolist(), series=one.name, told=told, dots=True)
    ticks, words = number_ticks(found.gbits[0], found.gbits[-1])
    return Chart(
        title=f"Time spent computing, {delay_text(found.latencies_s[latency])} one way",
        layers=(*layers, *horizontal(GOOD)),
        x=Axis(title="Gb/s of a worker's link", kind="log", ticks=ticks, words=words),
        y=Axis(title="share of the time computing", low=0.0, high=1.0),
        series=series,
    )


def rate_text(gbit: float) -> str:
    """A bandwidth in words."""
    return f"{gbit:g} Gb/s" if gbit >= 1.0 else f"{1000 * gbit:g} Mb/s"


def delay_text(seconds: float) -> str:
    """A latency in words."""
    return f"{1000 * seconds:g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:g} µs"


def short_name(name: str) -> str:
    """A name that fits into a cell."""
    return {"data parallel": "DP"}.get(name, name.replace("DiLoCo, ", "").replace("Streaming, ", "S "))
