"""What a deployment can be best at, or limited to: each with its value, and the best it could still be.

Tokens are tokens put out. A bound is what no run that keeps the objective of the scenario can beat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.specs.search import SearchSpec
from windtunnel.specs.serving import SloSpec

DEFAULT_GIVEN, DEFAULT_FREE = "devices", "tokens_per_s_per_device"
"""Objective where none is stated: for a stated rate, and where the load is to be found."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One simulated deployment."""

    devices: int
    price: float | None
    """Money for a device and hour."""
    duration_s: float
    output_tokens: float
    completed: float
    share: float
    """Share of requests that keep the objective."""
    tpot_p50_s: float
    mean_w: float | None = None
    """Mean draw of all devices; None where nothing asks for it."""


@dataclass(frozen=True, slots=True)
class Best:
    """The best that candidates could be: arrays (C,). Rates are upper bounds, seconds and watts lower ones."""

    devices: Floats
    price: Floats
    tokens_per_s: Floats
    requests_per_s: Floats
    user_tokens_per_s: Floats
    least_w: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One thing that deployments differ in."""

    name: str
    unit: str
    maximise: bool
    meaning: str
    value: Callable[[Figures], float]
    bound: Callable[[Best], Any]
    need: str = ""
    """price or power."""
    of_load: bool = False
    """Whether more load is what makes it better, so that the load is searched."""

    def signed(self, value: Any) -> Any:
        """The same with less being better."""
        return -value if self.maximise else value


def _watts(f: Figures) -> float:
    assert f.mean_w is not None
    return f.mean_w


def _price(f: Figures) -> float:
    assert f.price is not None
    return f.price * f.devices


def _a_token(total: float, f: Figures) -> float:
    """A total by token of the answers; infinite where none was completed."""
    return total / f.output_tokens if f.output_tokens else float("inf")


def _a_second(total: float, f: Figures) -> float:
    """A total by second of the run; 0 where nothing ran."""
    return total / f.duration_s if f.duration_s else 0.0


METRICS: dict[str, Metric] = {
    m.name: m
    for m in (
        Metric(
            name="devices",
            unit="",
            maximise=False,
            meaning="devices in use",
            value=lambda f: float(f.devices),
            bound=lambda b: b.devices,
        ),
        Metric(
            name="cost_per_hour",
            unit="money",
            maximise=False,
            meaning="price · devices",
            value=_price,
            bound=lambda b: b.price * b.devices,
            need="price",
        ),
        Metric(
            name="cost_per_million_tokens",
            unit="money",
            maximise=False,
            meaning="price · devices · time over tokens put out",
            value=lambda f: _a_token(_price(f) * f.duration_s / 3600.0, f) * 1e6,
            bound=lambda b: b.price * b.devices / 3600.0 / b.tokens_per_s * 1e6,
            need="price",
            of_load=True,
        ),
        Metric(
            name="power",
            unit="W",
            maximise=False,
            meaning="mean draw of all devices",
            value=_watts,
            bound=lambda b: b.least_w,
            need="power",
        ),
        Metric(
            name="energy_per_million_tokens",
            unit="J",
            maximise=False,
            meaning="all devices, without hosts and cooling",
            value=lambda f: _a_token(_watts(f) * f.duration_s, f) * 1e6,
            bound=lambda b: b.least_w / b.tokens_per_s * 1e6,
            need="power",
            of_load=True,
        ),
        Metric(
            name="goodput",
            unit="1/s",
            maximise=True,
            meaning="requests a second that keep the objective",
            value=lambda f: _a_second(f.share * f.completed, f),
            bound=lambda b: b.requests_per_s,
            of_load=True,
        ),
        Metric(
            name="tokens_per_s",
            unit="1/s",
            maximise=True,
            meaning="tokens put out a second",
            value=lambda f: _a_second(f.output_tokens, f),
            bound=lambda b: b.tokens_per_s,
            of_load=True,
        ),
        Metric(
            name="tokens_per_s_per_device",
            unit="1/s",
            maximise=True,
            meaning="tokens put out a second and device in use",
            value=lambda f: _a_second(f.output_tokens, f) / f.devices,
            bound=lambda b: b.tokens_per_s / b.devices,
            of_load=True,
        ),
        Metric(
            name="tokens_per_s_per_user",
            unit="1/s",
            maximise=True,
            meaning="inverse of the median TPOT",
            value=lambda f: 1.0 / f.tpot_p50_s if f.tpot_p50_s > 0 else 0.0,
            bound=lambda b: b.user_tokens_per_s,
        ),
    )
}
"""Name → metric, as `search.objective` and `search.limits` name them."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound that the user sets on a metric."""

    metric: Metric
    value: float

    def met(self, value: Any) -> Any:
        """Whether a value keeps to it (also of arrays)."""
        slack = _ROUNDING * abs(self.value)
        return self.metric.signed(value) <= self.metric.signed(self.value) + slack


@dataclass(frozen=True, slots=True)
class Goals:
    """What a search makes best, and what its deployments keep to next to the scenario's objective."""

    objectives: tuple[Metric, ...]
    limits: tuple[Limit, ...]
    slo: SloSpec

    @classmethod
    def of(cls, names: tuple[str, ...], wanted: SearchSpec, slo: SloSpec) -> Goals:
        """Goals as a scenario states them."""
        limits = [
            Limit(m, float(value)) for name, m in METRICS.items() if (value := getattr(wanted.limits, name, None))
        ]
        return cls(tuple(METRICS[n] for n in names), tuple(limits), slo)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Objectives, then limited metrics, each once."""
        return tuple(dict.fromkeys((*self.objectives, *(limit.metric for limit in self.limits))))

    def needs(self, what: str) -> bool:
        """Whether some metric in play needs prices, or power."""
        return any(m.need == what for m in self.metrics)

    def needing(self, what: str) -> str:
        """Their names."""
        return " and ".join(m.name for m in self.metrics if m.need == what)

    def values(self, f: Figures) -> dict[str, float]:
        """All metrics that the figures know."""
        out = {}
        for m in METRICS.values():
            if (m.need == "price" and f.price is None) or (m.need == "power" and f.mean_w is None):
                continue
            out[m.name] = float(m.value(f))
        return out

    def key(self, values: dict[str, float]) -> tuple[float, ...]:
        """What deployments are ordered by, less being better."""
        return tuple(float(m.signed(values[m.name])) for m in self.objectives)

    def missed(self, values: dict[str, float]) -> tuple[str, ...]:
        """Names of the limits that values break."""
        return tuple(x.metric.name for x in self.limits if not x.met(values[x.metric.name]))

    def bounds(self, best: Best) -> Floats:
        """(C, objectives): what the key of each candidate is at least; infinite where a limit cannot be met."""
        out = np.stack([np.asarray(m.signed(m.bound(best)), float) for m in self.objectives], axis=1)
        for limit in self.limits:
            out[~limit.met(limit.metric.bound(best))] = np.inf
        return out
