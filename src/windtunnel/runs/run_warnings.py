"""What a reader should know before believing the days of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windtunnel.runs.event_loop.program import WORK, Replication
from windtunnel.runs.prepare_run import PreparedRun
from windtunnel.specs.run import DAY_S
from windtunnel.techniques import applied, remarks


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


def warnings_of(x: PreparedRun, finished: float) -> list[str]:
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
        out.append(f"saves every {in_words(own)}; the shortest expected run saves every {in_words(best)}")
    if (
        x.run.spot is None
        and x.program.nodes.job > 1
        and not (x.program.nodes.spares + x.program.nodes.idle + x.program.nodes.shared)
    ):
        if x.run.recovery.policy == "restart" and x.profile.causes:
            out.append("no spares: every lost node is waited for until it is repaired (run.recovery.spares)")
    return out


def remarks_of(x: PreparedRun) -> list[str]:
    """Warnings of the step, and of techniques by what they do in the run, not in the step alone."""
    chosen = applied(x.scenario.techniques)
    of_the_step = set(remarks(chosen, x.scenario))
    own = [line for line in x.step.warnings if line not in of_the_step]
    waited = () if x.waited is None else x.waited.notes
    return [*own, *remarks(chosen, x.scenario, "run"), *waited]


def in_words(seconds: float) -> str:
    """Seconds below two minutes, minutes below two hours, hours."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
