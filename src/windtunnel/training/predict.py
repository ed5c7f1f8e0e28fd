"""From a scenario to a prediction: the scenario is loaded, looked up in the catalogue, resolved and simulated."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.catalog.load import load
from windtunnel.errors import BadInput, Problem, ProblemList, attempt
from windtunnel.importers.model import resolve_model
from windtunnel.kernel_cache import compile_seconds
from windtunnel.scenarios.source import Source, folder_of
from windtunnel.specs.scenario import ModelFile, Scenario

if TYPE_CHECKING:
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.model import ModelSpec
    from windtunnel.techniques.base import Applied
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.training.run_phases import PhaseScenario
    from windtunnel.training.stage_costs.pricing_cache import PricingCache
    from windtunnel.training.step_setup import PreparedStep


def look_up(
    scenario: Scenario, folder: Path, problems: ProblemList, *, verb: str
) -> tuple[ModelSpec | None, ClusterSpec | None, tuple[Applied, ...]]:
    """Model, cluster (as techniques leave it) and techniques of a scenario; what cannot be found is in `problems`.

    Args:
        scenario: The scenario that names them.
        folder: Folder that paths in the scenario are relative to.
        problems: Collects every problem of the scenario.
        verb: Command line verb that problems name.
    """
    from windtunnel import catalog
    from windtunnel.techniques import applied, on_cluster

    model, cluster = None, None
    if scenario.model or scenario.learning is None:
        model = attempt("model", lambda: resolve_model(scenario, folder), problems)
    if scenario.cluster or scenario.learning is None:
        cluster = attempt("cluster", lambda: catalog.resolve_cluster(scenario.cluster), problems)
    if scenario.training is None:
        rule = f"is required for `{verb}`: seq_len and global_batch at least"
        if scenario.serving is not None and scenario.programs is None:
            rule += "; of serving, " + ("search.target: serving" if verb == "plan" else "`serve` is the command")
        problems.extend([Problem(field="training", rule=rule + scenario.own_verb)])
    chosen = applied(scenario.techniques, problems)
    return model, cluster and on_cluster(chosen, cluster, problems), chosen


def prepare(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    coefficient_overrides: dict[str, Any] | None = None,
    cache: PricingCache | None = None,
) -> tuple[PreparedStep, Scenario]:
    """Resolve a scenario into a step program. All problems of all parts are reported at once.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        coefficient_overrides: Coefficients that replace those of the catalogue, by name.
        cache: Prices that several steps share; the step is the same with and without.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    scenario, lines, folder = load(source, overrides)
    return _prepared(scenario, ProblemList(lines), folder, coefficient_overrides, cache), scenario


def _prepared(
    scenario: Scenario,
    problems: ProblemList,
    folder: Path,
    coefficient_overrides: dict[str, Any] | None,
    cache: PricingCache | None = None,
) -> PreparedStep:
    from windtunnel.techniques import on_workload
    from windtunnel.training.prepare_step import prepare as prepare_step

    model, cluster, chosen = look_up(scenario, folder, problems, verb="train")
    training = on_workload(chosen, scenario.training)
    if model is None or cluster is None or training is None:
        problems.raise_if_any()
        raise AssertionError("unreachable")
    return prepare_step(
        model,
        cluster,
        training,
        scenario.plan,
        chosen,
        problems,
        coefficient_overrides=coefficient_overrides,
        cache=cache,
    )


def simulate_training(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    trace: bool = False,
    sensitivities: bool = True,
    coefficient_overrides: dict[str, Any] | None = None,
    run: bool = True,
    chosen_by_planner: Sequence[str] = (),
    cache: PricingCache | None = None,
) -> TrainingResult:
    """Predict one optimizer step, or the mean step of a run whose steps differ.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        trace: Whether to keep the simulated step for Perfetto and the report.
        sensitivities: Whether to simulate also with 10 % more of each resource.
        coefficient_overrides: Coefficients that replace those of the catalogue, by name (calibration and fitting).
        run: Whether phases of the run count; otherwise the result is of the steps that no phase claims.
        chosen_by_planner: What a planner chose because the scenario as it was written leaves it open, and what counts
            as assumed for that: `plan`, or axes such as plan.tp.
        cache: Prices that several predictions share; the result is the same with and without.

    Raises:
        BadInput: everything wrong with the scenario, at once.

    Example:
        >>> import windtunnel as wt
        >>> r = wt.simulate_training("examples/llama3-70b-64xh100.yaml")  # doctest: +SKIP
    """
    return _predicted(
        source,
        _Wanted(
            overrides=overrides,
            trace=trace,
            sensitivities=sensitivities,
            coefficient_overrides=coefficient_overrides,
            run=run,
            chosen_by_planner=chosen_by_planner,
            cache=cache,
        ),
    )


def simulate_one_of_many(
    source: Source, *, overrides: Sequence[str] = (), cache: PricingCache | None = None
) -> TrainingResult:
    """`simulate_training` for figures that are only compared: no sensitivities, no effect of assumed settings.

    Its interval is that of a step in which nothing is assumed, and `measure_next` is empty; all else is the same.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        cache: Prices that several predictions share; the result is the same with and without.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    return _predicted(source, _Wanted(overrides=overrides, sensitivities=False, assumed_terms=False, cache=cache))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """What a prediction is of and holds, as `simulate_training` describes it."""

    overrides: Sequence[str] = ()
    trace: bool = False
    sensitivities: bool = True
    assumed_terms: bool = True
    """Whether assumed settings widen the interval."""
    coefficient_overrides: dict[str, Any] | None = None
    run: bool = True
    chosen_by_planner: Sequence[str] = ()
    cache: PricingCache | None = None


def _predicted(source: Source, wanted: _Wanted) -> TrainingResult:
    from windtunnel import __version__
    from windtunnel.schedules import describe
    from windtunnel.techniques import applied, remarks
    from windtunnel.training.explain.assumptions import SEARCHED, WHOLE_PLAN, assumptions, planned
    from windtunnel.training.explain.ignored_settings import ignored_settings, not_runnable
    from windtunnel.training.results.time_to_train import time_to_train
    from windtunnel.training.run_phases import mean_of_run, phase_scenarios
    from windtunnel.training.simulate_step import simulate_step
    from windtunnel.training.stage_costs.pricing_cache import PricingCache

    begun, compiled_s = time.perf_counter(), compile_seconds()
    cache, chosen_by_planner = wanted.cache or PricingCache(), wanted.chosen_by_planner
    coefficients, sensitivities = wanted.coefficient_overrides, wanted.sensitivities
    prepared, scenario = prepare(source, overrides=wanted.overrides, coefficient_overrides=coefficients, cache=cache)
    folder = folder_of(source)
    assumed = assumptions(scenario, prepared, folder)
    if chosen_by_planner:
        own = tuple(planned(prepared, chosen_by_planner))
        whole = any(a.field == WHOLE_PLAN for a in own)
        named = {a.field for a in own}
        assumed = (*own, *(a for a in assumed if a.field not in named and not (whole and a.field in SEARCHED)))
    chosen, acting = applied(scenario.techniques), prepared.techniques
    phases = phase_scenarios(scenario, chosen) if wanted.run else ()

    def step(of: Scenario, x: PreparedStep, **options: Any) -> TrainingResult:
        found = simulate_step(x, name=scenario.name or x.model.name, **options)
        return replace(found, sensitivities=_sensitivities(of, x, found.step_time_s)) if sensitivities else found

    result = step(scenario, prepared, assumed=assumed, trace=wanted.trace)
    if wanted.assumed_terms:
        result = _with_assumed_terms(result, scenario, prepared, cache)
    if phases:
        ran = [step(p.scenario, _prepare_phase(p, folder, coefficients)) for p in phases]
        result = mean_of_run(result, [(p.phase, own) for p, own in zip(phases, ran, strict=True)])
    plain = scenario.model_dump(mode="json", exclude_unset=True)
    if isinstance(scenario.model, ModelFile):  # a stored result stands without the file
        plain["model"] = prepared.model.model_dump(mode="json", exclude_defaults=True)
    used = [t.technique.paper.line() for t in acting]
    order = describe(prepared.plan.schedule)
    if prepared.plan.pp > 1 and not any(t.technique.paper.link in order.source for t in acting):
        used.append(f"schedule {order.id}: {order.source}")
    digest = hashlib.sha256(json.dumps([plain, __version__], sort_keys=True).encode()).hexdigest()[:16]
    return replace(
        result,
        time_to_train=time_to_train(prepared.training.steps_to_converge, result.step_time_s, result.interval),
        scenario=plain,
        input_hash=digest,
        version=__version__,
        citations=tuple(used),
        techniques=tuple(t.technique.id for t in acting),
        warnings=(
            *result.warnings,
            *not_runnable(scenario, prepared),
            *remarks(chosen, scenario),
            *ignored_settings(scenario, prepared),
        ),
        simulated_in_s=time.perf_counter() - begun - (compile_seconds() - compiled_s),
    )


def _with_assumed_terms(
    result: TrainingResult, scenario: Scenario, prepared: PreparedStep, cache: PricingCache
) -> TrainingResult:
    """The result with a band that knows of assumed settings, and with what would narrow it most."""
    from windtunnel.training.explain.assumed_fields import Predicted, assumed_terms
    from windtunnel.training.uncertainty.band_terms import with_terms
    from windtunnel.training.uncertainty.measure_next import measure_next

    predicted = Predicted(
        step=prepared,
        scenario=scenario,
        step_time_s=result.step_time_s,
        memory_fits=result.memory_fits,
        cache=cache,
    )
    terms = assumed_terms(predicted, {a.field for a in result.assumed})
    band = with_terms(result.interval, result.step_time_s, terms)
    return replace(result, interval=band, measure_next=measure_next(prepared.members, result, band, terms))


def _prepare_phase(phase: PhaseScenario, folder: Path, coefficient_overrides: dict[str, Any] | None) -> PreparedStep:
    """The step of one phase of a run.

    Raises:
        BadInput: everything wrong with the phase, at once.
    """
    try:
        return _prepared(phase.scenario, ProblemList(), folder, coefficient_overrides)
    except BadInput as error:
        own = [replace(p, rule=f"{p.rule} (in phase {phase.phase.name} of the run)") for p in error.problems]
        raise BadInput(own) from error


def _sensitivities(scenario: Scenario, prepared: PreparedStep, base_s: float) -> dict[str, float]:
    """Resource → relative change of the step's seconds where the resource is 10 % larger."""
    from windtunnel.techniques import applied
    from windtunnel.training.explain.resource_scaling import RATES, outside, scaled
    from windtunnel.training.prepare_step import prepare as prepare_step
    from windtunnel.training.simulate_step import step_time

    out = {}
    chosen = applied(scenario.techniques)
    cluster = prepared.cluster
    for name in (*RATES, *outside(cluster, prepared.plan.offload)):
        other = prepare_step(prepared.model, scaled(cluster, name, 1.1), prepared.training, scenario.plan, chosen)
        out[name] = step_time(other) / base_s - 1.0
    faster = {
        "host_kernel_s": prepared.coefficients.host_kernel_s / 1.1,
        "moe_sync_s": prepared.coefficients.moe_sync_s / 1.1,
    }
    other = prepare_step(
        prepared.model, cluster, prepared.training, scenario.plan, chosen, coefficient_overrides=faster
    )
    out["host speed"] = step_time(other) / base_s - 1.0
    return out
