"""What would change the days of a run: each change is run in the same random numbers as the run itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.runs.event_loop.program import Program, Replication
from windtunnel.runs.event_loop.replicate import Runs, replications
from windtunnel.runs.prepare_run import PreparedRun, with_policy
from windtunnel.runs.run_bill import bill_figures, loop_of, mean_nodes, spot_price
from windtunnel.specs.run import DAY_S
from windtunnel.training.step_figures.power import price_per_device_hour

_SENSITIVITY_RUNS = 30
"""Replications of each changed run; they share their random numbers with those of the run itself."""
_TAIL = 1.2816
"""Standard errors to either end of an 80 % interval."""


def replicas_only(x: PreparedRun, run: Runs, own: Sequence[Replication]) -> dict[str, object] | None:
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
        "cost": bill_figures(other, seconds, days, runs)[1],
        "days_more": {"mean": middle / DAY_S, "low": (middle - error) / DAY_S, "high": (middle + error) / DAY_S},
    }


def spot_beside_on_demand(x: PreparedRun, run: Runs, runs: Sequence[Replication]) -> dict[str, object]:
    """What the result says of a spot fleet, next to the same run on nodes that stay."""
    in_job, held = mean_nodes(runs)
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
            "cost": bill_figures(stays, seconds, days, others)[1],
            "price_per_device_hour": price_per_device_hour(x.prepared),
        },
    }


def sensitivities(x: PreparedRun, run: Runs) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Change → relative change of the mean days, and its 80 % interval from the differences run by run."""
    base = _walls_s(x.program, x, run)
    found, ends = {}, {}
    for name, changed in CHANGES.items():
        by = (_walls_s(changed(x.program), x, run) - base) / base.mean()
        error = _TAIL * float(by.std(ddof=1)) / len(by) ** 0.5 if len(by) > 1 else math.inf
        found[name] = float(by.mean())
        ends[name] = (found[name] - error, found[name] + error)
    return found, ends if len(base) > 1 else {}


def spares_curve(x: PreparedRun, run: Runs) -> tuple[dict[str, float | int | None], ...]:
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
        _, cost, _ = bill_figures(own, seconds, float(seconds.sum()) / DAY_S, runs)
        out.append({"spares": spares, "days": float(seconds.sum()) / DAY_S, "cost": cost})
        if len(out) > 2 and out[-1]["days"] == out[-2]["days"] == out[-3]["days"]:
            break  # more spares than are ever needed at once
    return tuple(out)


def interval_curve(x: PreparedRun, run: Runs) -> tuple[dict[str, float], ...]:
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
