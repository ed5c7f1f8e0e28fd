"""A run whose steps differ: the scenario of each of its phases, and the mean step of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from windtunnel.cost.provenance import weakest
from windtunnel.errors import BadInput, Problem, ProblemList, nearest_name
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.simulate_step import bound_by

if TYPE_CHECKING:
    from windtunnel.specs.run_phases import RunPhase
    from windtunnel.specs.scenario import Scenario
    from windtunnel.specs.workload import TrainingSpec
    from windtunnel.techniques.base import Applied
    from windtunnel.training.results.records import Interval

OTHERWISE = "otherwise"
"""Name of the steps that no phase claims."""
_SECTIONS = ("training", "plan")


@dataclass(frozen=True, slots=True)
class PhaseScenario:
    """One phase of a run, and the scenario of its steps."""

    phase: RunPhase
    scenario: Scenario


def phases_of(training: TrainingSpec, chosen: Sequence[Applied]) -> tuple[RunPhase, ...]:
    """Phases of a run: those that the workload names, as techniques change them."""
    phases = training.run
    for item in chosen:
        phases = item.on_run(phases)
    return phases


def phase_scenarios(scenario: Scenario, chosen: Sequence[Applied]) -> tuple[PhaseScenario, ...]:
    """The scenario of every phase of a run; empty where all steps are alike.

    Raises:
        BadInput: everything wrong with the phases, at once.
    """
    if scenario.training is None:
        return ()
    phases = phases_of(scenario.training, chosen)
    problems = ProblemList()
    problems.extend(_problems(phases, chosen))
    problems.raise_if_any()
    return tuple(PhaseScenario(phase, _scenario(scenario, phase, at)) for at, phase in enumerate(phases))


def _problems(phases: Sequence[RunPhase], chosen: Sequence[Applied]) -> Iterator[Problem]:
    """Problems of the shares, names, fields and techniques that phases state."""
    taken = sum(phase.fraction for phase in phases)
    if taken >= 1.0:
        yield Problem("training.run", "phases must leave steps that are as the scenario writes them", round(taken, 6))
    names, acting = [OTHERWISE], [item.technique.id for item in chosen]
    for at, phase in enumerate(phases):
        field = f"training.run.{at}"
        if phase.name in names:
            yield Problem(f"{field}.name", "must be a name of its own", phase.name)
        names.append(phase.name)
        for path in phase.set:
            section, _, inside = path.partition(".")
            if section not in _SECTIONS or not inside or inside.split(".")[0] == "run":
                yield Problem(f"{field}.set", "must be a field of training or plan, such as training.seq_len", path)
        for name in phase.without:
            if name not in acting:
                near = nearest_name(name, acting)
                yield Problem(f"{field}.without", "is no technique of this scenario", name, nearest=near)


def _scenario(scenario: Scenario, phase: RunPhase, at: int) -> Scenario:
    """The scenario of one phase's steps.

    Raises:
        BadInput: a field that the phase sets has a value that it cannot have.
    """
    from windtunnel.scenarios.load import load_scenario

    plain = scenario.model_dump(mode="json", exclude_unset=True)
    plain["training"].pop("run", None)
    plain["techniques"] = [
        left for entry in scenario.techniques if (left := _without(entry, phase.without)) is not None
    ]
    try:
        return load_scenario(plain, [f"{path}={json.dumps(value)}" for path, value in phase.set.items()])
    except BadInput as error:
        own = [replace(p, field=f"training.run.{at}.set.{p.field}", file=None) for p in error.problems]
        raise BadInput(own) from error


def _without(entry: str | dict[str, dict[str, Any]], ids: Sequence[str]) -> Any:
    """An entry of `techniques` without the techniques of some ids; None where it would be empty."""
    if isinstance(entry, str):
        return None if entry in ids else entry
    return {name: knobs for name, knobs in entry.items() if name not in ids} or None


@dataclass(frozen=True, slots=True)
class _PhaseResult:
    """The steps of one phase, as they were simulated, with the phase's shares of the run."""

    name: str
    phase: RunPhase | None
    """The phase as the scenario writes it; absent for the steps that no phase claims."""
    result: TrainingResult
    steps: float
    """Share of the run's steps, 0 to 1."""
    time: float
    """Share of the run's seconds, 0 to 1."""
    tokens: float
    """Share of the run's tokens, 0 to 1."""

    def row(self) -> dict[str, Any]:
        """The phase in the result's table `run`."""
        result, phase = self.result, self.phase
        return {
            "name": self.name,
            "share": self.steps,
            "share_of_time": self.time,
            "step_time_s": result.step_time_s,
            "tokens_per_s": result.tokens_per_s,
            "mfu": result.mfu,
            "peak_memory_reserved_bytes": result.peak_memory_reserved_bytes,
            "memory_fits": result.memory_fits,
            "set": phase.set if phase else {},
            "without": list(phase.without) if phase else [],
            "breakdown": dict(result.breakdown),
        }


_MEANS_OVER_TIME = (
    "tokens_per_s",
    "tokens_per_s_per_device",
    "model_tflops_per_device",
    "hardware_tflops_per_device",
    "mfu",
    "hfu",
    "mean_power_w",
    "clock",
)
_MEANS_OVER_TOKENS = ("energy_per_token_j", "model_flop_per_token", "attention_flop_per_token")


def mean_of_run(main: TrainingResult, others: Sequence[tuple[RunPhase, TrainingResult]]) -> TrainingResult:
    """The mean step of a run.

    Times are means over steps, rates and shares of peaks are means over seconds, figures per token are means over
    tokens. Memory is that of the fullest phase; plan, stages and trace are those of `main`.

    Args:
        main: The steps that no phase claims.
        others: Each phase with the simulation of its steps.
    """
    phases, step_time_s = _shares_of_run(main, others)
    breakdown = {
        name: sum(phase.steps * phase.result.breakdown.get(name, 0.0) for phase in phases)
        for name in dict.fromkeys(name for phase in phases for name in phase.result.breakdown)
    }
    sensitivities = {
        name: sum(phase.time * phase.result.sensitivities.get(name, 0.0) for phase in phases)
        for name in dict.fromkeys(name for phase in phases for name in phase.result.sensitivities)
    }
    means: dict[str, Any] = {
        name: float(sum(phase.time * getattr(phase.result, name) for phase in phases)) for name in _MEANS_OVER_TIME
    }
    means |= {
        name: float(sum(phase.tokens * getattr(phase.result, name) for phase in phases)) for name in _MEANS_OVER_TOKENS
    }
    results = [phase.result for phase in phases]
    fullest = max(results, key=lambda r: r.memory.peak_reserved_bytes / r.memory.capacity_bytes)
    return replace(
        main,
        **means,
        step_time_s=step_time_s,
        breakdown=breakdown,
        interval=_interval_of_run(phases),
        bound_by=bound_by(breakdown),
        memory=fullest.memory,
        peak_memory_allocated_bytes=fullest.peak_memory_allocated_bytes,
        peak_memory_reserved_bytes=fullest.peak_memory_reserved_bytes,
        memory_fits=all(result.memory_fits for result in results),
        sensitivities=sensitivities,
        cost_per_million_tokens=_cost_of_run(phases),
        grades={name: weakest([result.grades[name] for result in results]) for name in main.grades},
        run=tuple(phase.row() for phase in phases),
        warnings=_warnings_of_run(phases),
        simulated_in_s=sum(result.simulated_in_s for result in results),
    )


def _shares_of_run(
    main: TrainingResult, others: Sequence[tuple[RunPhase, TrainingResult]]
) -> tuple[list[_PhaseResult], float]:
    """Every phase with its shares of steps, seconds and tokens, the unclaimed steps first; seconds of the mean step."""
    steps = [1.0 - sum(phase.fraction for phase, _ in others), *(phase.fraction for phase, _ in others)]
    results = [main, *(result for _, result in others)]
    seconds = [share * result.step_time_s for share, result in zip(steps, results, strict=True)]
    step_time_s = sum(seconds)
    tokens = [own_s * result.tokens_per_s for own_s, result in zip(seconds, results, strict=True)]
    all_tokens = sum(tokens)
    rows = zip([None, *(phase for phase, _ in others)], results, steps, seconds, tokens, strict=True)
    phases = [
        _PhaseResult(phase.name if phase else OTHERWISE, phase, result, share, own_s / step_time_s, own / all_tokens)
        for phase, result, share, own_s, own in rows
    ]
    return phases, step_time_s


def _interval_of_run(phases: Sequence[_PhaseResult]) -> Interval:
    """The interval of the mean step's seconds: ends are means over steps, the rest is that of the widest interval."""
    return replace(
        max((phase.result.interval for phase in phases), key=lambda interval: interval.high / interval.low),
        low=sum(phase.steps * phase.result.interval.low for phase in phases),
        high=sum(phase.steps * phase.result.interval.high for phase in phases),
    )


def _cost_of_run(phases: Sequence[_PhaseResult]) -> float | None:
    """Cost of a million tokens, the mean over tokens; None where a phase has no price."""
    if any(phase.result.cost_per_million_tokens is None for phase in phases):
        return None
    return sum(phase.tokens * (phase.result.cost_per_million_tokens or 0.0) for phase in phases)


def _warnings_of_run(phases: Sequence[_PhaseResult]) -> tuple[str, ...]:
    """Warnings of the steps that no phase claims, then those that a phase adds, after its name."""
    first, *others = phases
    main_warnings = first.result.warnings
    warnings = dict.fromkeys(main_warnings)
    for phase in others:
        warnings |= dict.fromkeys(
            f"{phase.name}: {text}" for text in phase.result.warnings if text not in main_warnings
        )
    return tuple(warnings)
