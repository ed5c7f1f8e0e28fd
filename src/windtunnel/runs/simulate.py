"""A run from its scenario to its result: replications, means, bill, and what would make it shorter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from windtunnel.catalog.load import load
from windtunnel.errors import BadInput, Infeasible, Problem, ProblemList
from windtunnel.progress import counting
from windtunnel.runs.carbon import best_start_s
from windtunnel.runs.changed_runs import (
    interval_curve,
    replicas_only,
    sensitivities,
    spares_curve,
    spot_beside_on_demand,
)
from windtunnel.runs.checkpoint.interval import daly_s, optimal_interval_s, young_s
from windtunnel.runs.checks import run_problems, spares_problem
from windtunnel.runs.ettr import sliding
from windtunnel.runs.event_loop.in_processes import replications_in
from windtunnel.runs.event_loop.program import CLASSES, Program, Replication
from windtunnel.runs.event_loop.replicate import Runs, replications, soonest
from windtunnel.runs.prepare_run import PreparedRun, prepare_run
from windtunnel.runs.progress_log import ProgressLog, read_progress_log
from windtunnel.runs.rate_intervals import shape_under_way
from windtunnel.runs.results import RunResult, day_figures, joint_band, shares, stop_rows
from windtunnel.runs.run_bill import bill_figures
from windtunnel.runs.run_warnings import in_words, remarks_of, warnings_of, why_none
from windtunnel.scenarios.source import Source
from windtunnel.specs.run import DAY_S
from windtunnel.techniques import applied
from windtunnel.training.predict import prepare, simulate_one_of_many, simulate_training
from windtunnel.training.stage_costs.pricing_cache import PricingCache


def simulate_run(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    sensitivities: bool = True,
    run: Runs = soonest,
    processes: int = 1,
) -> RunResult:
    """Predict a whole training run.

    Args:
        source: Path of a scenario file with a `run` section, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        sensitivities: Whether to simulate also with a change of each kind.
        run: The loop that runs a replication.
        processes: Processes in which replications are run where they take seconds; results are the same.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no replication ends within `run.limit_days`.
    """
    begun = time.perf_counter()
    x = prepared_run(source, overrides=overrides)
    return replace(_result(x, run, sensitivities, processes), simulated_in_s=time.perf_counter() - begun)


def forecast_run(
    source: Source, log: Path, *, overrides: Sequence[str] = (), sensitivities: bool = True, run: Runs = soonest
) -> RunResult:
    """When a run ends that is under way: step time and failure rate as its log says, the rest simulated.

    Args:
        source: The scenario of the whole run.
        log: CSV of its steps and incidents so far (`windtunnel.runs.progress_log`).
        overrides: Settings `key=value` as `--set` takes them.
        sensitivities: Whether to simulate also with a change of each kind.
        run: The loop that runs a replication.

    Raises:
        BadInput: everything wrong with the scenario or the log, at once.
        Infeasible: no replication ends within `run.limit_days`.
    """
    begun = time.perf_counter()
    so_far = read_progress_log(log)
    x = prepared_run(source, overrides=overrides)
    rest, told = _under_way(x, so_far)
    found = _result(rest, run, sensitivities)
    gone = so_far.elapsed_s / DAY_S
    return replace(
        found,
        days={name: value + gone for name, value in found.days.items()},
        interval={"low": found.days["p10"] + gone, "high": found.days["p90"] + gone},  # the step was measured
        every_days=tuple(day + gone for day in found.every_days),
        measured_step=True,
        warnings=(*told, *found.warnings),
        simulated_in_s=time.perf_counter() - begun,
    )


def _under_way(x: PreparedRun, log: ProgressLog) -> tuple[PreparedRun, list[str]]:
    """The rest of a run with its measured step time and failures, and what that changes, in words.

    Raises:
        BadInput: the log has more steps than the run.
    """
    left = x.steps - log.last_step
    if left <= 0:
        raise BadInput(Problem("--progress", f"the log is at step {log.last_step:g}; the run has {x.steps:g} steps"))
    expected = sum(level.rate for level in x.levels) * log.elapsed_s
    scale = log.failure_scale(expected)
    measured, planned = log.step_time_s, x.step.step_time_s
    levels = [replace(level, rate=level.rate * scale) for level in x.levels]
    best = optimal_interval_s(
        levels, at_risk_always=x.profile.while_restarting, least_s=measured, most_s=left * measured
    )
    steps_between = max(round(x.program.job.interval_s / planned), 1)
    program = replace(
        x.program,
        job=x.program.job._replace(work_s=left * measured, interval_s=steps_between * measured),
        kinds=x.program.kinds._replace(rate=x.program.kinds.rate * scale),
    )
    told = [
        f"step {log.last_step:,.0f} of {x.steps:,.0f} after {log.elapsed_s / DAY_S:.2f} days; "
        f"a step takes {measured:.3g} s, {planned:.3g} s were predicted ({measured / planned - 1:+.1%})",
        f"failures so far: {log.failures}; the profile expects {expected:.1f}: its rates are taken times {scale:.2f}, "
        "and each replication draws that factor from what the count leaves open",
        "days count from the log's first row; ideal, goodput, failures, energy and cost are of the steps that are left",
    ]
    own = steps_between * measured
    verdict = "is still right" if 0.5 <= own / best <= 2.0 else f"should be {in_words(best)}"
    told.append(f"the save interval of {in_words(own)} {verdict}")
    step = replace(x.step, step_time_s=measured)
    frailty = replace(x.frailty, rate_shapes=(), common_shape=shape_under_way(log.failures))
    drawn = (
        "run.failures",
        "one factor on all rates, drawn anew in each replication",
        "what the log's count leaves open",
    )
    rest = replace(
        x,
        program=program,
        levels=tuple(levels),
        optimal_interval_s=best,
        step=step,
        steps=left,
        frailty=frailty,
        assumed=(*(row for row in x.assumed if row[0] != "run.failures"), drawn),
    )
    return rest, told


def _result(x: PreparedRun, run: Runs, changes_too: bool, processes: int = 1) -> RunResult:
    """The replications of a prepared run, and what they say."""
    from windtunnel import __version__

    found = _replicate(x.program, x, run, x.run.replications, processes)
    seconds = np.array([r.seconds for r in found])
    ended = [r for r in found if r.finished]
    if not ended:
        raise Infeasible(why_none(x, found))
    mean = seconds.mean(axis=0)
    days = day_figures(seconds.sum(axis=1) / DAY_S)
    goodput, ettr, badput = shares(mean)
    energy_kwh, cost, carbon_kg = bill_figures(x, mean, days["mean"], found)
    ettr |= sliding(found[0].stops, found[0].wall_s)
    causes = tuple(c.name for c in x.profile.causes) or ("none",)
    changes, ends = sensitivities(x, run) if changes_too else ({}, {})
    band = x.step.interval
    return RunResult(
        scenario_name=x.scenario.name or x.step.scenario_name,
        days=days,
        interval=joint_band(seconds.sum(axis=1) / DAY_S, band.low / x.step.step_time_s, band.high / x.step.step_time_s),
        ideal_days=x.ideal_s / DAY_S,
        goodput=goodput,
        ettr=ettr,
        badput=badput,
        failures_mean=float(np.mean([r.counts.sum() for r in found])),
        failures_by_cause=dict(zip(causes, np.mean([r.counts for r in found], axis=0).tolist(), strict=True)),
        restarts_mean=float(np.mean([r.restarts for r in found])),
        finished=len(ended) / len(found),
        checkpoint=_checkpoint(x),
        spares=x.program.nodes.spares,
        cost=cost,
        currency="USD",
        energy_kwh=energy_kwh,
        carbon_kg=carbon_kg,
        begins_after_s=best_start_s(x.run, days["mean"], x.folder),
        replications=len(found),
        step_time_s=x.step.step_time_s,
        steps=x.steps,
        tokens=x.tokens,
        failure_profile=x.profile.name or "of the scenario",
        spot=spot_beside_on_demand(x, run, found) if x.run.spot is not None else None,
        replans=tuple({"nodes": x.program.nodes.job - n, "plan": words} for n, words in x.replans),
        replicas_only=replicas_only(x, run, found),
        sensitivities=changes,
        sensitivity_intervals=ends,
        spares_curve=spares_curve(x, run) if changes_too and x.run.spot is None else (),
        interval_curve=interval_curve(x, run) if changes_too else (),
        assumed=(*((a.field, str(a.value), a.why) for a in x.step.assumed), *x.assumed),
        warnings=(*remarks_of(x), *warnings_of(x, len(ended) / len(found))),
        seconds=dict(zip(CLASSES, mean.tolist(), strict=True)),
        every_days=tuple((seconds.sum(axis=1) / DAY_S).tolist()),
        stops=stop_rows(found[0].stops, causes, x.program.job.work_s),
        scenario=x.step.scenario,
        techniques=tuple(t.technique.id for t in x.techniques),
        citations=_citations(x),
        version=__version__,
    )


def prepared_run(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    folder: Path | None = None,
    cache: PricingCache | None = None,
    one_of_many: bool = False,
) -> PreparedRun:
    """The step of a run simulated once, and everything else of the run decided.

    Args:
        source: Path of a scenario file with a `run` section, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        folder: Folder that its paths are relative to; absent: that of the file.
        cache: Prices that several steps share; the run is the same with and without.
        one_of_many: Whether the run is only compared, so that the step's interval may leave out assumed settings.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    scenario, lines, own = load(source, overrides)
    cache = cache or PricingCache()
    problems, folder, prepared = ProblemList(lines), folder or own, None
    try:
        prepared, scenario = prepare(source, overrides=overrides, cache=cache)
    except BadInput as error:
        problems.extend(error.problems)
    if scenario.run is None:
        problems.extend([Problem("run", "is required for `run`: tokens or steps at least")])
    else:
        problems.extend(run_problems(scenario.run, folder))
        problems.extend(spares_problem(scenario.run, prepared.cluster.nodes) if prepared is not None else ())
    problems.raise_if_any()
    assert prepared is not None
    if one_of_many:
        step = simulate_one_of_many(source, overrides=overrides, cache=cache)
    else:
        step = simulate_training(source, overrides=overrides, sensitivities=False, cache=cache)
    return prepare_run(scenario, folder, step, prepared)


def _replicate(program: Program, x: PreparedRun, run: Runs, count: int, processes: int = 1) -> list[Replication]:
    """Replications of a program, with progress."""
    found: list[Replication] = []
    with counting("runs", lambda: (float(len(found)), float(count)), "run.replications") as pace:
        together = processes > 1 and run is soonest
        runs = (
            replications_in(processes, program, x.frailty, count, x.run.seed)
            if together
            else replications(program, x.frailty, count, x.run.seed, run)
        )
        for one in runs:
            found.append(one)
            pace.check()
    return found


def _checkpoint(x: PreparedRun) -> dict[str, object]:
    """What the result says of checkpoints."""
    rate = sum(level.rate for level in x.levels)
    blocking = float(x.program.tiers.block_s.sum())
    tiers = [
        {
            "to": spec.to,
            "mode": spec.mode,
            "every": int(x.program.tiers.every[k]),
            "block_s": times.block_s,
            "slowed_s": times.slowed_s,
            "lag_s": times.lag_s,
            "load_s": times.load_s,
        }
        for k, (spec, times) in enumerate(zip(x.run.checkpoint.tiers, x.tiers, strict=True))
    ]
    return {
        "interval_s": x.program.job.interval_s,
        "interval_steps": round(x.program.job.interval_s / x.step.step_time_s),
        "optimal_interval_s": x.optimal_interval_s,
        "young_s": young_s(blocking, 1.0 / rate) if rate and blocking else None,
        "daly_s": daly_s(blocking, 1.0 / rate) if rate and blocking else None,
        "blocking_s": blocking,
        "bytes": x.run.checkpoint.bytes or x.state.total,
        "tiers": tiers,
    }


def _citations(x: PreparedRun) -> tuple[str, ...]:
    """Works that the step and the run use, each once; those of techniques that do nothing here are left out."""
    named = {t.technique.paper.line() for t in applied(x.scenario.techniques)}
    acting = [t.technique.paper.line() for t in x.techniques]
    return tuple(dict.fromkeys([*acting, *(line for line in x.step.citations if line not in named)]))
