"""Two runs of serving next to each other: figures, what differs, and where an iteration's seconds went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windtunnel.differences import changed, deltas, flat
from windtunnel.versions import RESULT_SCHEMA

FIGURES = {
    "throughput_requests_per_s": 1,
    "output_tokens_per_s_per_device": 1,
    "output_tokens_per_s_per_user": 1,
    "ttft_s.p50": -1,
    "ttft_s.p99": -1,
    "tpot_s.p50": -1,
    "tpot_s.p99": -1,
    "e2e_s.p50": -1,
    "e2e_s.p99": -1,
    "slo_attainment": 1,
    "goodput_requests_per_s": 1,
    "kv_cache_usage_max": -1,
    "capacity.tokens": 1,
    "preemptions": -1,
    "power.mean_w_per_device": -1,
    "power.energy_per_output_token_j": -1,
    "cost_per_million_output_tokens": -1,
    "num_devices": 0,
}
"""Key of `serve --json` → whether more is better (1), worse (−1) or neither."""


@dataclass(frozen=True, slots=True)
class ServingComparison:
    """From `a` to `b`, plain results of `serve --json`."""

    a: dict[str, Any]
    b: dict[str, Any]
    figures: dict[str, tuple[float, float]]
    """Key → (a, b), of figures that both have."""
    iterations: dict[str, dict[str, float]]
    """Kind of iteration → class of time → seconds, b − a at each run's own mean batch, largest first."""
    scenario: dict[str, tuple[Any, Any]]
    """Scenario fields that differ → (a, b), dotted names."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        names = ("scenario_name", "saturated", "bound_by")
        return {
            "schema_version": RESULT_SCHEMA,
            "a": {n: self.a.get(n) for n in names},
            "b": {n: self.b.get(n) for n in names},
            "figures": {k: {"a": a, "b": b, "ratio": b / a if a else None} for k, (a, b) in self.figures.items()},
            "iterations": self.iterations,
            "scenario": {k: list(v) for k, v in self.scenario.items()},
        }


def compared(a: dict[str, Any], b: dict[str, Any]) -> ServingComparison:
    """Compare two results of `serve --json`."""
    flat_a, flat_b = flat(a), flat(b)
    both = {key: (flat_a.get(key), flat_b.get(key)) for key in FIGURES}
    figures = {
        k: (float(x), float(y))
        for k, (x, y) in both.items()
        if isinstance(x, (int, float)) and isinstance(y, (int, float))
    }
    parts_a, parts_b = a.get("composition") or {}, b.get("composition") or {}
    iterations = {kind: deltas(parts_a[kind], parts_b[kind]) for kind in parts_a if kind in parts_b}
    outside = ("name", "schema_version")
    scenarios = [
        flat({k: _listed(v) for k, v in (r.get("scenario") or {}).items() if k not in outside}) for r in (a, b)
    ]
    return ServingComparison(a, b, figures, iterations, changed(*scenarios))


def _listed(value: Any) -> Any:
    """The same with lists of mappings as mappings by place, so that single fields compare."""
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and any(isinstance(v, dict) for v in value):
        return {str(i): _listed(v) for i, v in enumerate(value)}
    return value
