"""Where changes are tried: a scenario's own prediction, and the same scenario with changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from windtunnel.advice.actions import Action
from windtunnel.advice.objectives import Objective
from windtunnel.advice.plans import differences
from windtunnel.differences import deltas
from windtunnel.errors import BadInput, Infeasible
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.techniques.base import Work
from windtunnel.techniques.limits import merged
from windtunnel.training.compare_results import between
from windtunnel.training.predict import simulate_one_of_many, simulate_training
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.uncertainty.plan_difference import PairedDifference

NO_BAND = "simulated alone: no measured pairs"


@dataclass(frozen=True, slots=True)
class Band:
    """Interval of the ratio of a time, or of a rate, after a change to that before."""

    low: float
    high: float
    level: float
    basis: str


class Bench(Protocol):
    """A scenario on which changes are tried."""

    work: ClassVar[Work]
    """What is predicted: a training step, a deployment under its traffic, or a whole run."""

    @property
    def base(self) -> Any:
        """Today's prediction."""

    @property
    def scenario(self) -> dict[str, Any]:
        """That was predicted, as plain data."""

    def run(self, changed: dict[str, Any]) -> Any:
        """The result of a changed scenario.

        Raises:
            BadInput: the changes do not go with it.
            Infeasible: the model no longer fits.
        """

    def fits(self, result: Any) -> bool:
        """Whether it runs in the memory there is."""

    def reserved_bytes(self, result: Any) -> float | None:
        """Reserved peak of a device; None where it says nothing."""

    def moved(self, result: Any, objective: Objective) -> tuple[tuple[str, float, float], ...]:
        """What is otherwise than in the base, the largest change first."""

    def freed(self, result: Any) -> tuple[tuple[str, float, float], ...]:
        """Kinds of tensors that take more or less memory at the peak than in the base, the largest change first."""

    def replanned(self, result: Any) -> dict[str, tuple[Any, Any]]:
        """Fields of the resolved plan that are otherwise, with values of both."""

    def also(self, result: Any) -> tuple[tuple[str, float, float], ...]:
        """Other figures before and after that a reader weighs the objective against."""

    def band(self, result: Any, objective: Objective) -> Band:
        """How sure the ratio of the objective is."""


@dataclass(frozen=True, slots=True)
class TrainingBench:
    """A training step."""

    base: TrainingResult
    scenario: dict[str, Any]
    cache: PricingCache = field(default_factory=PricingCache)
    work: ClassVar[Work] = "training"

    def run(self, changed: dict[str, Any]) -> TrainingResult:
        """The step of a changed scenario; its interval leaves out assumed settings until `band` asks for them."""
        return simulate_one_of_many(changed, cache=self.cache)

    def fits(self, result: TrainingResult) -> bool:
        """Whether the reserved peak is within the device."""
        return result.memory_fits

    def reserved_bytes(self, result: TrainingResult) -> float | None:
        """Reserved peak of the fullest stage."""
        return result.peak_memory_reserved_bytes

    def moved(self, result: TrainingResult, objective: Objective) -> tuple[tuple[str, float, float], ...]:
        """Classes of time that differ by half a per cent of the step or more."""
        return _largest(self.base.breakdown, result.breakdown, 0.005 * self.base.step_time_s)

    def freed(self, result: TrainingResult) -> tuple[tuple[str, float, float], ...]:
        """Kinds of tensors that differ by one per cent of the reserved peak or more."""
        least = 0.01 * self.base.peak_memory_reserved_bytes
        return _largest(self.base.memory.at_peak, result.memory.at_peak, least)

    def replanned(self, result: TrainingResult) -> dict[str, tuple[Any, Any]]:
        """Fields of the resolved plan that are otherwise."""
        return differences(self.base.plan, result.plan)

    def also(self, result: TrainingResult) -> tuple[tuple[str, float, float], ...]:
        """The objective and memory say it all."""
        return ()

    def band(self, result: TrainingResult, objective: Objective) -> Band:
        """Interval of the ratio of step times after to before; energy and money follow step time."""
        before, after = objective.value(self.base) or 1.0, objective.value(result) or 1.0
        ratio = after / before
        found = step_ratio(self.base, result, self.cache) if objective.measure else None
        if found is None:
            return Band(ratio, ratio, 0.0, NO_BAND)
        return Band(ratio * found.low / found.ratio, ratio * found.high / found.ratio, found.level, found.basis)


def step_ratio(base: TrainingResult, result: TrainingResult, cache: PricingCache) -> PairedDifference | None:
    """Step time of a result of `simulate_one_of_many` against the base, with its interval; None as `between` says."""
    try:
        return between(base, simulate_training(result.scenario, sensitivities=False, cache=cache))
    except BadInput:  # its scenario can no longer be read
        return None


def _largest(before: dict[str, float], after: dict[str, float], least: float) -> tuple[tuple[str, float, float], ...]:
    """The four entries that differ most, by `least` or more."""
    return tuple(
        (name, float(before.get(name, 0.0)), float(after.get(name, 0.0)))
        for name, change in deltas(before, after).items()
        if abs(change) >= least
    )[:4]


@dataclass(frozen=True, slots=True)
class ServingBench:
    """A deployment under its traffic."""

    base: ServingResult
    scenario: dict[str, Any]
    work: ClassVar[Work] = "serving"

    def run(self, changed: dict[str, Any]) -> ServingResult:
        """The run of a changed scenario."""
        from windtunnel.serving.simulate import simulate_serving

        return simulate_serving(changed)

    def fits(self, result: ServingResult) -> bool:
        """One that does not fit raises."""
        return True

    def reserved_bytes(self, result: ServingResult) -> None:
        """Caches fill what is left."""

    def moved(self, result: ServingResult, objective: Objective) -> tuple[tuple[str, float, float], ...]:
        """Figures that differ by one per cent or more, the largest first."""
        figures = {
            "output tokens/s": "output_tokens_per_s",
            "mean TTFT": "ttft_s.mean",
            "mean TPOT": "tpot_s.mean",
            "P99 E2E": "e2e_s.p99",
            "mean wait": "queue_s.mean",
            "prefix hits": "prefix_hit_rate",
            "preemptions": "preemptions",
            "devices": "num_devices",
        }
        found = []
        for title, path in figures.items():
            one = Objective(title, title, path)
            a, b = one.value(self.base), one.value(result)
            if path != objective.figure and a is not None and b is not None and abs(b - a) > 0.01 * max(abs(a), abs(b)):
                found.append((title, a, b))
        return tuple(sorted(found, key=lambda x: -abs(x[2] - x[1]) / max(abs(x[1]), abs(x[2]))))[:4]

    def freed(self, result: ServingResult) -> tuple[tuple[str, float, float], ...]:
        """Caches fill what is left."""
        return ()

    def replanned(self, result: ServingResult) -> dict[str, tuple[Any, Any]]:
        """Deployments are settings of engines, not plans."""
        return {}

    def also(self, result: ServingResult) -> tuple[tuple[str, float, float], ...]:
        """What moves says it all."""
        return ()

    def band(self, result: ServingResult, objective: Objective) -> Band:
        """From residuals of measured rows of one model on one device, taken two by two."""
        from windtunnel.serving.results.residual_bands import paired_band

        before, after = objective.value(self.base) or 1.0, objective.value(result) or 1.0
        found = paired_band(objective.measure)
        ratio = after / before
        if found is None or not result.completed:
            return Band(ratio, ratio, 0.0, NO_BAND)
        return Band(ratio * found.low, ratio * found.high, found.level, found.basis)


def changed(scenario: Mapping[str, Any], actions: Sequence[Action]) -> dict[str, Any]:
    """A scenario with changes made."""
    out = dict(scenario)
    for action in actions:
        out = merged(out, action.changes)
    added = [action.entry for action in actions if action.technique is not None]
    if added:
        out["techniques"] = [*out.get("techniques", ()), *added]
    return out


def attempt(bench: Bench, actions: Sequence[Action]) -> tuple[Any | None, str]:
    """The result of changes, or why there is none."""
    try:
        return bench.run(changed(bench.scenario, actions)), ""
    except (BadInput, Infeasible) as error:
        return None, "; ".join(str(error).splitlines()[:2])
