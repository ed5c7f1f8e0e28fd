"""A run whose steps differ: the scenario of each phase, and the mean of what its phases were simulated to be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from windtunnel.cost.provenance import weakest
from windtunnel.errors import BadInput, Problem, ProblemList, nearest_name
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.training.simulate import bound_by

if TYPE_CHECKING:
    from windtunnel.specs.run import RunPhase
    from windtunnel.specs.scenario import Scenario
    from windtunnel.specs.workload import TrainingSpec
    from windtunnel.techniques.base import Applied

OTHERWISE = "otherwise"
"""Name of the steps that no phase claims."""
_SECTIONS = ("training", "plan")


@dataclass(frozen=True, slots=True)
class PhaseScenario:
    """One phase, and its steps as a scenario of their own."""

    phase: RunPhase
    scenario: Scenario


def phases_of(training: TrainingSpec, chosen: Sequence[Applied]) -> tuple[RunPhase, ...]:
    """Phases that the scenario writes, with what techniques add."""
    phases = training.run
    for item in chosen:
        phases = item.on_run(phases)
    return phases


def phase_scenarios(scenario: Scenario, chosen: Sequence[Applied]) -> tuple[PhaseScenario, ...]:
    """Every phase of a run as a scenario; none where all steps are alike.

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
        BadInput: what it sets cannot be.
    """
    from windtunnel.specs.loader import load_scenario

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
    """An entry of the list of techniques less some of them; None where nothing is left."""
    if isinstance(entry, str):
        return None if entry in ids else entry
    return {name: knobs for name, knobs in entry.items() if name not in ids} or None


def mean_of_run(main: TrainingResult, parts: Sequence[tuple[RunPhase, TrainingResult]]) -> TrainingResult:
    """The run's mean step.

    Times are means over steps; rates and shares of peaks follow from what the run does in its time; memory is that of
    the fullest phase; plan, stages and trace those of `main`, the steps that no phase claims.
    """
    share = [1.0 - sum(phase.fraction for phase, _ in parts), *(phase.fraction for phase, _ in parts)]
    names = [OTHERWISE, *(phase.name for phase, _ in parts)]
    results = [main, *(result for _, result in parts)]
    step = sum(w * r.step_time_s for w, r in zip(share, results, strict=True))
    of_time = [w * r.step_time_s / step for w, r in zip(share, results, strict=True)]
    of_tokens = [w * r.step_time_s * r.tokens_per_s for w, r in zip(share, results, strict=True)]
    tokens = sum(of_tokens)
    of_tokens = [w / tokens for w in of_tokens]

    def by(weights: Sequence[float], name: str) -> float:
        return float(sum(w * getattr(r, name) for w, r in zip(weights, results, strict=True)))

    classes = list(dict.fromkeys(name for r in results for name in r.breakdown))
    breakdown = {
        name: sum(w * r.breakdown.get(name, 0.0) for w, r in zip(share, results, strict=True)) for name in classes
    }
    widest = max((r.interval for r in results), key=lambda b: b.high / b.low)
    band = replace(
        widest,
        low=sum(w * r.interval.low for w, r in zip(share, results, strict=True)),
        high=sum(w * r.interval.high for w, r in zip(share, results, strict=True)),
    )
    fullest = max(results, key=lambda r: r.memory.peak_reserved_bytes / r.memory.capacity_bytes)
    resources = list(dict.fromkeys(name for r in results for name in r.sensitivities))
    costs = [r.cost_per_million_tokens for r in results]
    cost = sum(w * (c or 0.0) for w, c in zip(of_tokens, costs, strict=True))
    rates = (
        "tokens_per_s",
        "tokens_per_s_per_device",
        "model_tflops_per_device",
        "hardware_tflops_per_device",
        "mfu",
        "hfu",
        "mean_power_w",
        "clock",
    )
    a_token = ("energy_per_token_j", "model_flop_per_token", "attention_flop_per_token")
    table = [
        {
            "name": name,
            "share": w,
            "share_of_time": t,
            "step_time_s": r.step_time_s,
            "tokens_per_s": r.tokens_per_s,
            "mfu": r.mfu,
            "peak_memory_reserved_bytes": r.peak_memory_reserved_bytes,
            "memory_fits": r.memory_fits,
            "set": phase.set if phase else {},
            "without": list(phase.without) if phase else [],
            "breakdown": dict(r.breakdown),
        }
        for name, w, t, r, phase in zip(names, share, of_time, results, [None, *(p for p, _ in parts)], strict=True)
    ]
    warnings = dict.fromkeys(main.warnings)
    for name, result in zip(names[1:], results[1:], strict=True):
        warnings |= dict.fromkeys(f"{name}: {text}" for text in result.warnings if text not in main.warnings)
    means: dict[str, Any] = {name: by(of_time, name) for name in rates}
    means |= {name: by(of_tokens, name) for name in a_token}
    return replace(
        main,
        **means,
        step_time_s=step,
        breakdown=breakdown,
        interval=band,
        bound_by=bound_by(breakdown),
        memory=fullest.memory,
        peak_memory_allocated_bytes=fullest.peak_memory_allocated_bytes,
        peak_memory_reserved_bytes=fullest.peak_memory_reserved_bytes,
        memory_fits=all(r.memory_fits for r in results),
        sensitivities={
            name: sum(w * r.sensitivities.get(name, 0.0) for w, r in zip(of_time, results, strict=True))
            for name in resources
        },
        cost_per_million_tokens=None if any(c is None for c in costs) else cost,
        grades={k: weakest([r.grades[k] for r in results]) for k in main.grades},
        run=tuple(table),
        warnings=tuple(warnings),
        simulated_in_s=sum(r.simulated_in_s for r in results),
    )
