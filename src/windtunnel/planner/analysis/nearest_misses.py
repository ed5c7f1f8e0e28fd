"""Where no plan keeps to all limits: how near one comes to each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windtunnel.errors import ProblemList, SourceLines
from windtunnel.planner.objectives import Goals, Metric
from windtunnel.planner.plan_label import shown
from windtunnel.planner.search.branch_and_bound import Branch, Found, Proof, search
from windtunnel.specs.plan import PlanSpec
from windtunnel.training.prepare_step import prepare
from windtunnel.units import DIMENSIONS, format_quantity

MOST = 50
"""Plans that are simulated to find the nearest miss of one limit."""


def nearest_misses(
    branches: Sequence[Branch], goals: Goals, found: Found, proof: Proof, lines: SourceLines | None = None
) -> tuple[str, str]:
    """What no plan meets, and the nearest miss of each limit: the others kept, or none where that is not enough.

    Raises:
        BadInput: the simulator refuses every plan; says why.
    """
    if proof.refused == proof.candidates:
        x, case = branches[0].candidates, branches[0].case
        layout, policy = np.argwhere(x.legal)[0].tolist()
        prepare(case.model, case.cluster, case.training, x.plan(layout, policy), case.techniques, ProblemList(lines))
    sizes = sorted({b.setting.memory_bytes / 2**30 * goals.memory_fraction for b in branches})
    room = f"{sizes[0]:.1f} GiB" if len(sizes) == 1 else f"{sizes[0]:.1f} to {sizes[-1]:.1f} GiB"
    texts = []
    for limit in goals.limits:
        side = "at least" if limit.metric.maximise else "at most"
        text = f"{limit.metric.name} {side} {_quantity(limit.value, limit.metric)}"
        others = tuple(x for x in goals.limits if x is not limit)
        for kept, words in ((others, "the other limits kept"), ((), "no other limit kept")):
            relaxed, _ = search(branches, Goals((limit.metric,), kept, goals.memory_fraction), most=MOST)
            if relaxed.best is not None:
                e = relaxed.best
                where = _words(e.plan, branches[e.branch], several=len(branches) > 1)
                reached = _quantity(e.values[limit.metric.name], limit.metric)
                texts.append(f"{text}: {reached}{f', {words},' if others else ''} with {where}")
                break
    if not texts:  # memory alone is in the way
        texts.append(_memory(branches, found))
    names = " and ".join(limit.metric.name for limit in goals.limits)
    wanted = f" within the limits of {names}" if names else ""
    return f"none of {proof.candidates:,} plans fits {room}{wanted}", "; ".join(texts)


def _memory(branches: Sequence[Branch], found: Found) -> str:
    """The plan that needs least memory."""
    tried = [e for e in found.evaluated if e.reserved_bytes is not None]
    several = len(branches) > 1
    if tried:
        e = min(tried, key=lambda e: e.reserved_bytes or 0.0)
        need, words = e.reserved_bytes or 0.0, _words(e.plan, branches[e.branch], several=several)
    else:
        which = int(np.argmin([b.bounds.memory_bytes.min() for b in branches]))
        x, memory = branches[which].candidates, branches[which].bounds.memory_bytes
        layout, policy = divmod(int(np.argmin(memory)), memory.shape[1])
        need, words = float(memory[layout, policy]), _words(x.plan(layout, policy), branches[which], several=several)
    return f"{need / 2**30:.1f} GiB with {words}"


def _quantity(value: float, metric: Metric) -> str:
    return format_quantity(value, metric.unit) if metric.unit in DIMENSIONS else f"{value:,.6g}"


def _words(plan: PlanSpec, branch: Branch, *, several: bool) -> str:
    text = " ".join(f"{k} {v}" for k, v in shown(plan, branch.candidates).items())
    cluster = branch.case.cluster
    return f"{text} on {cluster.name} in {branch.case.training.precision}" if several else text
