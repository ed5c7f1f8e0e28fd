"""The difference between two predictions, class by class: what lies between one step time and the other."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from windtunnel.differences import changed, deltas, flat
from windtunnel.training.compare_results import between
from windtunnel.versions import RESULT_SCHEMA

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.training.uncertainty.plan_difference import PairedDifference

_FIGURES = ("step_time_s", "tokens_per_s_per_device", "mfu", "hfu", "peak_memory_reserved_bytes", "num_devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """From `a` to `b`. Seconds and bytes are b − a; each partition sums to its total."""

    a: TrainingResult
    b: TrainingResult
    seconds_by_class: dict[str, float]
    """Class of time → difference, largest first; sums to the difference of the step times."""
    bytes_by_kind: dict[str, float]
    """Kind of tensor → difference at the two peaks; sums to the difference of the allocated peaks."""
    plan: dict[str, tuple[Any, Any]]
    """Plan fields that differ → (a, b)."""
    scenario: dict[str, tuple[Any, Any]]
    """Other scenario fields that differ → (a, b), dotted names."""
    paired: PairedDifference | None = None
    """How sure the order of the two step times is; None where a stored result can no longer be read as a scenario,
    or a cluster is heterogeneous."""

    @property
    def name_of_b(self) -> str:
        """Name of the second scenario; "as changed" where both have one name."""
        return "as changed" if self.a.scenario_name == self.b.scenario_name else self.b.scenario_name

    @property
    def chosen(self) -> dict[str, tuple[Any, Any]]:
        """Plan fields that differ and that somebody chose; the number of micro-batches follows from the others."""
        return {name: values for name, values in self.plan.items() if name != "m"}

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "schema_version": RESULT_SCHEMA,
            "a": _figures(self.a),
            "b": _figures(self.b),
            "step_time_difference_s": self.b.step_time_s - self.a.step_time_s,
            "step_time_ratio": self.b.step_time_s / self.a.step_time_s,
            "seconds_by_class": self.seconds_by_class,
            "bytes_by_kind": self.bytes_by_kind,
            "plan": {k: list(v) for k, v in self.plan.items()},
            "scenario": {k: list(v) for k, v in self.scenario.items()},
            "paired": asdict(self.paired) if self.paired else None,
        }


def difference(a: TrainingResult, b: TrainingResult) -> Comparison:
    """Compare two predictions.

    Example:
        `difference(a, b).seconds_by_class` says how many seconds each class of time adds on the way from a to b.
    """
    return Comparison(
        a=a,
        b=b,
        seconds_by_class=deltas(a.breakdown, b.breakdown),
        bytes_by_kind=deltas(a.memory.at_peak, b.memory.at_peak),
        plan=changed(flat(a.plan), flat(b.plan)),
        scenario=changed(flat(_outside_plan(a.scenario)), flat(_outside_plan(b.scenario))),
        paired=between(a, b),
    )


def without_crumbs(deltas: dict[str, float], smallest: float) -> dict[str, float]:
    """Entries below `smallest` as one, so that the sum stays."""
    deltas = {name: delta for name, delta in deltas.items() if abs(delta) > 1e-6 * smallest}
    crumbs = {name: delta for name, delta in deltas.items() if abs(delta) < smallest}
    if len(crumbs) < 2:
        return deltas
    kept = {name: delta for name, delta in deltas.items() if name not in crumbs}
    return kept | {f"{len(crumbs)} smaller": sum(crumbs.values())}


def _figures(result: TrainingResult) -> dict[str, Any]:
    return {"scenario_name": result.scenario_name} | {name: getattr(result, name) for name in _FIGURES}


def _outside_plan(scenario: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in scenario.items() if k not in ("plan", "name", "schema_version")}
