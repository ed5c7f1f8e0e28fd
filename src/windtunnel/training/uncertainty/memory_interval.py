"""Bands around the memory peaks, and the probability that a plan fits, from errors of predictions of measured peaks.

No coefficient is fitted to a memory peak, so every measured row counts as unseen; rows of the model and cluster in
question are left out all the same. Rows of one (software, device) count together as one unit, so that the offset
between units sets the width. An interval rests on the closest class that has enough rows, and enough units where the
software was not measured on the device: the same software, software that allocates the same way, all software.

Residuals: `catalog/residuals/memory.json`, written by `windtunnel_lab.fit.memory_residuals`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.training.results.records import Interval, MemoryReport
from windtunnel.training.uncertainty.comparable_runs import signature

LEVEL = 0.8
_ENOUGH = 6
"""Least number of distinct residuals of a class; with fewer, the 10 and 90 % points are the extremes."""
_UNITS = 3
"""Least number of units of a class where the software was not measured on the device: one unit shows no offset."""
SETUP = {"fitted": 0.15}
"""Grade of the residuals → standard deviation, as a logarithm, of what a stated plan leaves open about a run's memory
and residuals of published benchmarks do not show: padding, evaluation, logging, libraries, versions. From outcomes
(ran, or out of memory) of measured rows and of half of `tests/validation/public_memory_reports.yaml`."""
SETUP_ELSEWHERE = 0.25
"""The same where the software's peaks were not measured."""
USABLE = 0.99
"""Share of a device's memory that processes can have: 79.35 GiB of 80 on A100, 31.75 of 32 on V100, 23.7 of 24 on RTX
3090, as errors of PyTorch state them."""
_UNKNOWN = 0.25
"""Half-width of the interval, as a logarithm, where no measured peak is comparable."""
_STACK = {
    "megatron": (
        "megatron_core",
        "megatron_bridge",
        "nemo",
        "rocm_megatron",
        "habana_megatron",
        "megatron_deepspeed",
        "megatron_2021",
        "megatron_2022",
        "deepspeed",
    ),
    "torch": ("torchtitan", "torchtune", "fsdp1", "ddp", "internevo", "colossalai", "nanotron"),
    "xla": ("jax", "pax", "t5x"),
}
"""Software that allocates tensors alike: Megatron's buffers, plain PyTorch, a planning compiler."""


@dataclass(frozen=True, slots=True)
class MemoryResidual:
    """Error of the prediction of one measured peak."""

    software: str
    device: str
    metric: str
    """`allocated` or `reserved`."""
    signature: str
    family: str
    error: float
    """predicted / measured − 1."""


def stack(software: str) -> str:
    """Class of `_STACK` by which a framework allocates its tensors."""
    return next((name for name, members in _STACK.items() if software in members), "torch")


@cache
def residuals() -> tuple[MemoryResidual, ...]:
    """All residuals in the catalogue; equal ones (more micro-batches of one plan) count once."""
    path = resources.files("windtunnel") / "catalog/residuals/memory.json"
    if not path.is_file():
        return ()
    rows = json.loads(path.read_text())["rows"]
    return tuple(dict.fromkeys(MemoryResidual(*row) for row in rows))


@dataclass(frozen=True, slots=True)
class ResidualSample:
    """Residuals that an interval rests on."""

    errors: Floats
    """log(predicted / measured), shape (n,)."""
    weights: Floats
    """Weights that sum to one, shape (n,)."""
    basis: str
    """The residuals in words."""
    grade: str
    """fitted, analytic or assumed."""

    def quantile(self, share: float) -> float:
        """Weighted quantile of the log errors, linear between the middles of the weights."""
        order = np.argsort(self.errors)
        e, w = self.errors[order], self.weights[order]
        return float(np.interp(share, np.cumsum(w) - w / 2, e))

    @property
    def effective(self) -> float:
        """Number of equally weighted residuals with the same information."""
        return float(1.0 / (self.weights**2).sum())

    def band(self, value: float, level: float = LEVEL) -> tuple[float, float]:
        """Lower and upper end around a predicted value, at the level that a finite sample needs."""
        n = self.effective
        share = min(1.0, level * (n + 1.0) / n)
        return value * math.exp(-self.quantile((1 + share) / 2)), value * math.exp(-self.quantile((1 - share) / 2))

    def below(self, value: float, limit: float, beyond: float = 0.0) -> float:
        """Probability that the true value is at most `limit`: residuals smoothed by a normal kernel.

        Args:
            value: Predicted bytes.
            limit: Bytes that there are.
            beyond: Standard deviation of the logarithm that the residuals do not show.
        """
        if value <= 0 or limit <= 0:
            return float(limit > 0)
        mean = float((self.weights * self.errors).sum())
        spread = math.sqrt(float((self.weights * (self.errors - mean) ** 2).sum()))
        width = math.hypot(max(1.06 * spread * self.effective**-0.2, 0.005), beyond)
        z = (math.log(limit / value) + self.errors) / (width * math.sqrt(2.0))
        return float((self.weights * 0.5 * (1.0 + np.array([math.erf(x) for x in z]))).sum())


def comparable_residuals(software: str, device: str, own: str, metric: str) -> ResidualSample:
    """Residuals of the closest class that has enough of them.

    Args:
        software: Framework of the prediction.
        device: Its device's id.
        own: Its model and cluster (`comparable_runs.signature`); their residuals are left out.
        metric: `allocated` or `reserved`.
    """
    rows = [r for r in residuals() if r.signature != own]
    kin = stack(software)
    like = [r for r in rows if r.metric == metric]
    classes = (
        (f"{software}, {metric}", [r for r in like if r.software == software], "fitted"),
        (f"software like {software}, {metric}", [r for r in like if stack(r.software) == kin], "analytic"),
        (f"software like {software}", [r for r in rows if stack(r.software) == kin], "analytic"),
        ("any software", rows if kin != "xla" else [], "analytic"),
    )
    for name, members, grade in classes:
        units = Counter((r.software, r.device, r.family) for r in members)
        seen = any(r.software == software and r.device == device for r in members)
        if len(members) < _ENOUGH or (len(units) < _UNITS and not seen):
            continue
        weights = np.array([1.0 / math.sqrt(units[r.software, r.device, r.family]) for r in members])
        families = ", ".join(sorted({r.family for r in members}))
        text = f"{len(members)} measured peaks in {len(units)} sets, {name}: {families}"
        return ResidualSample(np.log1p([r.error for r in members]), weights / weights.sum(), text, grade)
    edge = _UNKNOWN / 1.2816
    spread = np.array([-1.8, -1.2816, -0.6, 0.0, 0.6, 1.2816, 1.8]) * edge
    return ResidualSample(spread, np.full(7, 1 / 7), "no comparable measured peaks", "assumed")


def coverage() -> dict[str, tuple[int, float, float]]:
    """Metric → (distinct peaks, share of them inside the interval that leaves their group out, mean relative width)."""
    inside: dict[str, list[tuple[bool, float]]] = {}
    for r in residuals():
        low, high = comparable_residuals(r.software, r.device, r.signature, r.metric).band(1.0 + r.error)
        inside.setdefault(r.metric, []).append((low <= 1.0 <= high, high - low))
    return {
        metric: (len(hits), sum(hit for hit, _ in hits) / len(hits), math.fsum(w for _, w in hits) / len(hits))
        for metric, hits in sorted(inside.items())
    }


def with_bands(report: MemoryReport, software: str, cluster: ClusterSpec, model: ModelSpec) -> MemoryReport:
    """Add intervals and the probability that the plan fits to a memory report.

    The interval of the reserved peak is that of the framework's allocator plus context and communication buffers. A
    plan fits where the device has room for all that the allocator would reserve without a limit: segments that it
    caches could go back, but most public runs that depended on it ran out of memory.
    """
    own = signature(model, cluster)
    found = {
        metric: comparable_residuals(software, cluster.device.id, own, metric) for metric in ("allocated", "reserved")
    }
    low, high = found["allocated"].band(report.peak_allocated_bytes)
    a = Interval(LEVEL, low, high, found["allocated"].basis, found["allocated"].grade)
    held = report.reserved_by_allocator_bytes
    outside = report.peak_reserved_bytes - held
    low, high = found["reserved"].band(held)
    r = Interval(LEVEL, low + outside, high + outside, found["reserved"].basis, found["reserved"].grade)
    beyond = SETUP.get(found["reserved"].grade, SETUP_ELSEWHERE)
    needed = report.wanted_by_allocator_bytes or held
    likely = found["reserved"].below(needed, USABLE * report.capacity_bytes - outside, beyond)
    if report.overfull:
        likely = 0.0
    return replace(report, allocated_interval=a, reserved_interval=r, fit_probability=likely)
