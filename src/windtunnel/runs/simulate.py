"""A run from its scenario to its result: replications, means, bill, and what would make it shorter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.catalog.load import load
from windtunnel.cost.clock import idle_w
from windtunnel.errors import BadInput, Infeasible, Problem, ProblemList
from windtunnel.progress import counting
from windtunnel.runs.bill import Bill, Rates
from windtunnel.runs.carbon import best_start_s, mean_g_co2_per_kwh
from windtunnel.runs.checkpoint.interval import daly_s, optimal_interval_s, young_s
from windtunnel.runs.checks import run_problems, spares_problem
from windtunnel.runs.ettr import sliding
from windtunnel.runs.event_loop.program import CLASSES, DEGRADED, LOST, STRAGGLER, WORK, Program, Replication
from windtunnel.runs.event_loop.replicate import Runs, replications, soonest
from windtunnel.runs.prepare import SPOT_SHARE, PreparedRun, prepare_run, with_policy
from windtunnel.runs.progress_log import ProgressLog, read_progress_log
from windtunnel.runs.rate_intervals import shape_under_way
from windtunnel.runs.results import RunResult, day_figures, joint_band, shares, stop_rows
from windtunnel.runs.spot.expected import SpotMean
from windtunnel.specs.run import DAY_S
from windtunnel.specs.source import Source
from windtunnel.techniques import applied, remarks
from windtunnel.training.predict import prepare, simulate_training
from windtunnel.training.step_figures.power import price_per_device_hour

_SENSITIVITY_RUNS = 30
"""Replications of each changed run; they share their random numbers with those of the run itself."""
_TAIL = 1.2816
"""Standard errors to either end of an 80 % interval."""


def simulate_run(
    source: Source, *, overrides: Sequence[str] = (), sensitivities: bool = True, run: Runs = soonest
) -> RunResult:
    """Predict a whole training run.

    Args:
        source: Path of a scenario file with a `run` section, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        sensitivities: Whether to simulate also with a change of each kind.
        run: The loop that runs a replication.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no replication ends within `run.limit_days`.
    """
    begun = time.perf_counter()
    x = prepared_run(source, overrides=overrides)
    return replace(_result(x, run, sensitivities), simulated_in_s=time.perf_counter() - begun)


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
    verdict = "is still right" if 0.5 <= own / best <= 2.0 else f"should be {_told(best)}"
    told.append(f"the save interval of {_told(own)} {verdict}")
    step = replace(x.step, step_time_s=measured)
    frailty = replace(x.frailty, rate_shapes=(), common_shape=shape_under_way(log.failures))
    rest = replace(
        x, program=program, levels=tuple(levels), optimal_interval_s=best, step=step, steps=left, frailty=frailty
    )
    return rest, told


def _result(x: PreparedRun, run: Runs, sensitivities: bool) -> RunResult:
    """The replications of a prepared run, and what they say."""
    from windtunnel import __version__

    found = _replicate(x.program, x, run, x.run.replications)
    seconds = np.array([r.seconds for r in found])
    ended = [r for r in found if r.finished]
    if not ended:
        raise Infeasible(why_none(x, found))
    mean = seconds.mean(axis=0)
    days = day_figures(seconds.sum(axis=1) / DAY_S)
    goodput, ettr, badput = shares(mean)
    energy_kwh, cost, carbon_kg = _bill(x, mean, days["mean"], found)
    ettr |= sliding(found[0].stops, found[0].wall_s)
    causes = tuple(c.name for c in x.profile.causes) or ("none",)
    changes, ends = _sensitivities(x, run) if sensitivities else ({}, {})
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
        spot=_spot(x, run, found) if x.run.spot is not None else None,
        replans=tuple({"nodes": x.program.nodes.job - n, "plan": words} for n, words in x.replans),
        replicas_only=_replicas_only(x, run, found),
        sensitivities=changes,
        sensitivity_intervals=ends,
        spares_curve=_spares_curve(x, run) if sensitivities and x.run.spot is None else (),
        interval_curve=_interval_curve(x, run) if sensitivities else (),
        assumed=(*((a.field, str(a.value), a.why) for a in x.step.assumed), *x.assumed),
        warnings=(*_remarks(x), *_warnings(x, len(ended) / len(found))),
        seconds=dict(zip(CLASSES, mean.tolist(), strict=True)),
        every_days=tuple((seconds.sum(axis=1) / DAY_S).tolist()),
        stops=stop_rows(found[0].stops, causes, x.program.job.work_s),
        scenario=x.step.scenario,
        techniques=tuple(t.technique.id for t in x.techniques),
        citations=_citations(x),
        version=__version__,
    )


def prepared_run(source: Source, *, overrides: Sequence[str] = (), folder: Path | None = None) -> PreparedRun:
    """The step of a run simulated once, and everything else of the run decided.

    Args:
        source: Path of a scenario file with a `run` section, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        folder: Folder that its paths are relative to; absent: that of the file.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    scenario, lines, own = load(source, overrides)
    problems, folder, prepared = ProblemList(lines), folder or own, None
    try:
        prepared, scenario = prepare(source, overrides=overrides)
    except BadInput as error:
        problems.extend(error.problems)
    if scenario.run is None:
        problems.extend([Problem("run", "is required for `run`: tokens or steps at least")])
    else:
        problems.extend(run_problems(scenario.run, folder))
        problems.extend(spares_problem(scenario.run, prepared.cluster.nodes) if prepared is not None else ())
    problems.raise_if_any()
    assert prepared is not None
    step = simulate_training(source, overrides=overrides, sensitivities=False)
    return prepare_run(scenario, folder, step, prepared)


def loop_of(x: PreparedRun, first: int, count: int, run: Runs = soonest) -> list[Replication]:
    """Replications `first` and later of a prepared run."""
    return list(replications(x.program, x.frailty, count, x.run.seed, run, first=first))


def _replicate(program: Program, x: PreparedRun, run: Runs, count: int) -> list[Replication]:
    """Replications of a program, with progress."""
    found: list[Replication] = []
    with counting("runs", lambda: (float(len(found)), float(count))):
        found.extend(replications(program, x.frailty, count, x.run.seed, run))
    return found


def why_none(x: PreparedRun, found: Sequence[Replication]) -> str:
    """One line: what kept every replication from ending."""
    done = np.mean([r.seconds[WORK] for r in found]) / x.program.job.work_s
    retired = np.mean([r.retired for r in found])
    why = f"{retired:.0f} nodes were retired" if retired else "failures come faster than restarts and saves"
    why = _without_a_copy(x) or why
    if x.program.job.work_s / DAY_S > x.run.limit_days:
        why = f"without a failure it takes {x.program.job.work_s / DAY_S:.1f} days"
    return f"no run ends within run.limit_days = {x.run.limit_days:g}: {done:.1%} of the steps are done by then; {why}"


def _without_a_copy(x: PreparedRun) -> str:
    """One line: the causes after which no tier has a copy, so that the run begins anew; empty without such."""
    kinds = x.program.kinds
    bare = [
        cause.name
        for cause, rate, survives in zip(x.profile.causes, kinds.rate, kinds.survives, strict=False)
        if rate > 0 and not survives.any()
    ]
    if not bare:
        return ""
    named = ", ".join(bare[:3]) + (f" and {len(bare) - 3} more" if len(bare) > 3 else "")
    rule = "the run begins anew at its first step; a tier {to: storage} or {to: peer} keeps a copy elsewhere"
    return f"no tier of run.checkpoint.tiers has a copy left after {named}: {rule}"


def _bill(
    x: PreparedRun, seconds: Floats, days: float, runs: Sequence[Replication]
) -> tuple[float, float | None, float | None]:
    """(kWh of the building, dollars, kilograms of CO₂); None without a price or a grid.

    A spot fleet is paid for the nodes that are there; of others the job's and its spares, all the time.
    """
    bill = bill_of(x, seconds, days, runs)
    return bill.energy_kwh, bill.cost, bill.carbon_kg


def bill_of(
    x: PreparedRun,
    seconds: Floats,
    days: float,
    runs: Sequence[Replication] = (),
    *,
    mean: SpotMean | None = None,
) -> Bill:
    """The bill of a run.

    Args:
        x: The run.
        seconds: Wall time by class, in the order of `CLASSES`.
        days: Its sum, for the hours of the grid.
        runs: Replications that the seconds are of; read for the nodes of a spot fleet.
        mean: In their place, where the seconds are those of the closed form.
    """
    cluster, nodes = x.prepared.members[0].cluster, x.program.nodes
    in_job, held, price = float(nodes.job), float(nodes.job + nodes.spares), price_per_device_hour(x.prepared)
    if x.program.draw_market is not None:
        in_job, held = _mean_nodes(runs) if mean is None else (mean.in_job, mean.held)
        price = spot_price(x)
    rates = Rates(
        job_nodes=in_job,
        spares=held - in_job,
        devices_per_node=cluster.devices_per_node,
        idle_w=idle_w(cluster.device),
        price_per_device_hour=price,
        price_per_kwh=x.run.price_per_kwh,
        pue=x.run.pue,
    )
    running_s = float(seconds[[WORK, LOST, DEGRADED, STRAGGLER]].sum())
    intensity = mean_g_co2_per_kwh(x.run, days, x.folder)
    return rates.bill(x.step.mean_power_w, float(seconds.sum()), running_s, intensity)


def replicated(x: PreparedRun, count: int, run: Runs = soonest) -> tuple[Floats, tuple[Bill, ...]]:
    """(seconds by class of every replication, shape (count, classes), the bill of each)."""
    runs = list(replications(x.program, x.frailty, count, x.run.seed, run))
    seconds = np.array([r.seconds for r in runs])
    return seconds, tuple(bill_of(x, r.seconds, r.wall_s / DAY_S, [r]) for r in runs)


def _mean_nodes(runs: Sequence[Replication]) -> tuple[float, float]:
    """(nodes in the job, nodes of the spot fleet), means over all runs."""
    wall = sum(r.wall_s for r in runs)
    return sum(r.job_node_s for r in runs) / wall, sum(r.held_node_s for r in runs) / wall


def spot_price(x: PreparedRun) -> float | None:
    """Dollars of a spot device's hour: as stated, else a share of the price on demand; None where that is unknown."""
    assert x.run.spot is not None
    if x.run.spot.price_per_device_hour is not None:
        return x.run.spot.price_per_device_hour
    price = price_per_device_hour(x.prepared)
    return None if price is None else SPOT_SHARE * price


def _spot(x: PreparedRun, run: Runs, runs: Sequence[Replication]) -> dict[str, object]:
    """What the result says of a spot fleet, beside the same run on nodes that stay."""
    in_job, held = _mean_nodes(runs)
    stays = x.with_program(replace(x.program, draw_market=None))
    count = min(x.run.replications, _SENSITIVITY_RUNS)
    others = list(replications(stays.program, x.frailty, count, x.run.seed, run))
    seconds = np.array([r.seconds for r in others]).mean(axis=0)
    days = float(seconds.sum()) / DAY_S
    return {
        "nodes_held": held,
        "nodes_in_job": in_job,
        "reclaims": float(np.mean([r.reclaims for r in runs])),
        "reclaimed_nodes": float(np.mean([r.reclaimed for r in runs])),
        "price_per_device_hour": spot_price(x),
        "on_demand": {
            "days": days,
            "cost": _bill(stays, seconds, days, others)[1],
            "price_per_device_hour": price_per_device_hour(x.prepared),
        },
    }


def _replicas_only(x: PreparedRun, run: Runs, own: Sequence[Replication]) -> dict[str, object] | None:
    """The same run where whole replicas are all that goes and comes; None where the plan stays anyhow."""
    if x.run.recovery.policy != "reshape":
        return None
    other = with_policy(x, "shrink")
    runs = loop_of(other, 0, min(x.run.replications, _SENSITIVITY_RUNS), run)
    seconds = np.array([r.seconds for r in runs]).mean(axis=0)
    more = np.array([r.wall_s for r in runs]) - np.array([r.wall_s for r in own[: len(runs)]])
    error = _TAIL * float(more.std(ddof=1)) / len(more) ** 0.5 if len(more) > 1 else math.inf
    middle, days = float(more.mean()), float(seconds.sum()) / DAY_S
    return {
        "days": days,
        "cost": _bill(other, seconds, days, runs)[1],
        "days_more": {"mean": middle / DAY_S, "low": (middle - error) / DAY_S, "high": (middle + error) / DAY_S},
    }


def _told(seconds: float) -> str:
    """Seconds below two minutes, minutes below two hours, hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


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


def _remarks(x: PreparedRun) -> list[str]:
    """Warnings of the step, and of techniques by what they do in the run, not in the step alone."""
    chosen = applied(x.scenario.techniques)
    of_the_step = set(remarks(chosen, x.scenario))
    own = [line for line in x.step.warnings if line not in of_the_step]
    waited = () if x.waited is None else x.waited.notes
    return [*own, *remarks(chosen, x.scenario, "run"), *waited]


def _citations(x: PreparedRun) -> tuple[str, ...]:
    """Works that the step and the run use, each once; those of techniques that do nothing here are left out."""
    named = {t.technique.paper.line() for t in applied(x.scenario.techniques)}
    acting = [t.technique.paper.line() for t in x.techniques]
    return tuple(dict.fromkeys([*acting, *(line for line in x.step.citations if line not in named)]))


def _warnings(x: PreparedRun, finished: float) -> list[str]:
    """What a reader should know before believing the days."""
    out = []
    if not x.step.memory_fits:
        out.append("the step does not fit in the device's memory: the run would not start")
    if finished < 1.0:
        out.append(f"{1 - finished:.0%} of the runs were given up, because nodes ran out or limit_days was over")
    if bare := _without_a_copy(x):
        out.append(bare)
    timeouts = x.run.recovery.timeouts
    if timeouts is not None and timeouts.wrong_order:
        rule = "the outer one acts before the inner one can say what hangs"
        out.append(f"run.recovery.timeouts do not nest: {timeouts.wrong_order}; {rule}")
    if timeouts is not None and not any(c.hang for c in x.profile.causes):
        out.append("run.recovery.timeouts change nothing: no cause of the failures is a hang (hang: true)")
    plan = x.prepared.members[0].plan
    crossing = plan.schedule.startswith("dualpipe") and plan.ep > 1 and not plan.overlap_moe_a2a
    if crossing and "dualpipe" not in {t.technique.id for t in x.techniques}:
        exposed = x.step.breakdown.get("exposed ep", 0.0) / x.step.step_time_s
        out.append(
            f"{exposed:.0%} of the step are exchanges of experts that nothing hides; DualPipe runs them behind the "
            "other pass: plan.overlap.moe_a2a: true"
        )
    slow = x.program.job.slow_by_missing
    if x.replans and len(slow) > 1 and slow[1] <= 1.0:
        out.append(
            f"{x.replans[1][1]} is as fast on fewer nodes as the plan on all of them: search plans first "
            "(`windtunnel plan --objective days`)"
        )
    if x.run.spot is not None and x.run.recovery.policy == "restart":
        out.append(
            "run.recovery.policy restart waits for all nodes of the spot fleet after each reclaim; shrink goes on"
        )
    best, own = x.optimal_interval_s, x.program.job.interval_s
    if any(level.rate > 0 for level in x.levels) and (own > 2 * best or own < best / 2):
        out.append(f"saves every {_told(own)}; the shortest expected run saves every {_told(best)}")
    if (
        x.run.spot is None
        and x.program.nodes.job > 1
        and not (x.program.nodes.spares + x.program.nodes.idle + x.program.nodes.shared)
    ):
        if x.run.recovery.policy == "restart" and x.profile.causes:
            out.append("no spares: every lost node is waited for until it is repaired (run.recovery.spares)")
    return out


def _sensitivities(x: PreparedRun, run: Runs) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Change → relative change of the mean days, and its 80 % interval from the differences run by run."""
    base = _walls_s(x.program, x, run)
    found, ends = {}, {}
    for name, changed in CHANGES.items():
        by = (_walls_s(changed(x.program), x, run) - base) / base.mean()
        error = _TAIL * float(by.std(ddof=1)) / len(by) ** 0.5 if len(by) > 1 else math.inf
        found[name] = float(by.mean())
        ends[name] = (found[name] - error, found[name] + error)
    return found, ends if len(base) > 1 else {}


def _spares_curve(x: PreparedRun, run: Runs) -> tuple[dict[str, float | int | None], ...]:
    """Days and dollars with none, powers of two up to an eighth of the nodes, and its own number of hot spares."""
    nodes = x.program.nodes
    most = max(nodes.job // 8, 1)
    counts = sorted({0, nodes.spares, *(2**i for i in range(most.bit_length()) if 2**i <= most)})
    count = min(x.run.replications, _SENSITIVITY_RUNS)
    out: list[dict[str, float | int | None]] = []
    for spares in counts:
        own = x.with_program(replace(x.program, nodes=nodes._replace(spares=spares)))
        runs = list(replications(own.program, x.frailty, count, x.run.seed, run))
        seconds = np.array([r.seconds for r in runs]).mean(axis=0)
        _, cost, _ = _bill(own, seconds, float(seconds.sum()) / DAY_S, runs)
        out.append({"spares": spares, "days": float(seconds.sum()) / DAY_S, "cost": cost})
        if len(out) > 2 and out[-1]["days"] == out[-2]["days"] == out[-3]["days"]:
            break  # more spares than are ever needed at once
    return tuple(out)


def _interval_curve(x: PreparedRun, run: Runs) -> tuple[dict[str, float], ...]:
    """Days with intervals from a quarter of the run's own to four times it."""
    return tuple(
        {
            "interval_s": x.program.job.interval_s * factor,
            "days": _mean_s(_interval(factor)(x.program), x, run) / DAY_S,
        }
        for factor in (0.25, 0.5, 1.0, 2.0, 4.0)
    )


def _mean_s(program: Program, x: PreparedRun, run: Runs) -> float:
    return float(_walls_s(program, x, run).mean())


def _walls_s(program: Program, x: PreparedRun, run: Runs) -> Floats:
    """Wall time of each of the replications of a changed run."""
    count = min(x.run.replications, _SENSITIVITY_RUNS)
    return np.array([r.wall_s for r in replications(program, x.frailty, count, x.run.seed, run)])


def _more_spares(p: Program) -> Program:
    return replace(p, nodes=p.nodes._replace(spares=p.nodes.spares + 1))


def _faster_detection(p: Program) -> Program:
    return replace(p, kinds=p.kinds._replace(detect_s=np.maximum(p.kinds.detect_s - 60.0, 0.0)))


def _faster_restart(p: Program) -> Program:
    r = p.restart
    short = {f: max(getattr(r, f) / 2, 0.0) for f in ("schedule_s", "initialise_s", "compile_s", "refill_s")}
    return replace(p, restart=r._replace(**short))


def _fewer_failures(p: Program) -> Program:
    return replace(p, kinds=p.kinds._replace(rate=p.kinds.rate / 2))


def _interval(factor: float) -> Callable[[Program], Program]:
    return lambda p: replace(p, job=p.job._replace(interval_s=p.job.interval_s * factor))


def _free_saves(p: Program) -> Program:
    return replace(p, tiers=p.tiers._replace(block_s=np.zeros_like(p.tiers.block_s)))


CHANGES: dict[str, Callable[[Program], Program]] = {
    "one spare more": _more_spares,
    "detection 60 s faster": _faster_detection,
    "restart parts halved": _faster_restart,
    "half the failures": _fewer_failures,
    "saves half as often": _interval(2.0),
    "saves twice as often": _interval(0.5),
    "saves that do not stop the steps": _free_saves,
}
"""What the sensitivities change."""
