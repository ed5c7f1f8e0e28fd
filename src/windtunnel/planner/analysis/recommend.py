"""The recommended plan: the simplest of those that cannot be distinguished.

The search finds the plan that is fastest *as simulated*. Where measured pairs of plans
(`training.uncertainty.plan_difference`) cannot say whether it is really faster than another simulated plan, the one
with fewer parts to set up and to go wrong is recommended. The fastest one stays the subject of the proof.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.errors import BadInput, ProblemList
from windtunnel.parallel.resolve import resolve
from windtunnel.planner.plan_label import shown
from windtunnel.planner.plan_scenario import scenario_with_plan
from windtunnel.planner.search.branch_and_bound import Evaluated
from windtunnel.planner.search.requery import FinishedSearch
from windtunnel.specs.plan import PlanSpec
from windtunnel.training.uncertainty.comparable_runs import describe
from windtunnel.training.uncertainty.plan_difference import PairedDifference, paired_difference
from windtunnel.training.uncertainty.step_time_interval import interval_of

TIMED = (
    "step_time",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "cost_per_million_tokens",
    "cost_per_trillion_tokens",
    "time_to_tokens",
    "cost",
)
"""Objectives that order the plans of one cluster by step time."""
_ASKED = 32
"""Plans whose memory is simulated for this at most; the search did not ask for that of slower plans."""
_REDONE = {"none": 0, "selective": 1, "modules": 1, "full": 2}


class Simplicity(NamedTuple):
    """How much there is to a plan. Compared from the first field on; less is simpler."""

    kinds: int
    """Kinds of parallelism in use among tensor, pipeline, context and expert."""
    redone: int
    """Recomputation (none 0, parts of a layer 1, whole layers 2), and 1 for each tensor class that is offloaded."""
    stages: int
    """Virtual pipeline stages, pp · vpp."""
    switches: int
    """Switches that are not as the framework sets them: schedule, sequence parallelism, kind of context parallelism,
    sharding and its group, overlaps, order of axes, layers of each stage."""
    inner: int
    """Devices that one replica's layer is spread over, tp · cp."""


def simplicity(plan: PlanSpec, behaviour: Behaviour) -> Simplicity:
    """How much there is to a plan, given what its framework does by itself."""
    plain = PlanSpec()
    over = plan.overlap
    offloaded = sum(share > 0 for share in (plan.offload.activations, plan.offload.optimizer, plan.offload.params))
    given = [
        (over.grad_reduce, behaviour.overlap_grad_reduce),
        (over.param_gather, behaviour.overlap_param_gather),
        (over.tp, behaviour.overlap_tp),
        (over.p2p, behaviour.overlap_p2p),
        (over.moe_a2a, behaviour.overlap_moe_a2a),
        (over.fsdp_prefetch, behaviour.fsdp_prefetch),
        (plan.sp if plan.tp > 1 else None, behaviour.sp),
        (plan.schedule, "interleaved_1f1b" if plan.vpp > 1 else "1f1b"),
        (plan.stage_layers, None),
        (plan.shard_group, None),
        (plan.zero, 3 if behaviour.param_bytes == 4.0 else 1),
        (plan.order, plain.order),
        (plan.cp_kind if plan.cp > 1 else None, plain.cp_kind),
    ]
    return Simplicity(
        sum(size > 1 for size in (plan.tp, plan.pp, plan.cp, plan.ep)),
        _REDONE[plan.recompute.policy] + offloaded,
        plan.pp * plan.vpp,
        sum(value is not None and value != usual for value, usual in given),
        plan.tp * plan.cp,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The plan to take, and how sure it is that the fastest as simulated is really faster."""

    plan: dict[str, Any]
    """The recommended plan in short."""
    step_time_s: float
    reserved_bytes: float | None
    scenario: dict[str, Any]
    """The scenario with the recommended plan filled in."""
    same: bool
    """Whether it is the fastest one."""
    slower: float
    """How much longer its simulated step is than the fastest one's, as a share."""
    probability_fastest_faster: float | None
    """None where the two are one plan, or differ in switches alone that no measured pair varies."""
    differs: tuple[str, ...]
    """Fields of `Simplicity` in which it is not as the fastest plan, the deciding one first."""
    paired: PairedDifference | None = None


def choose(finished: FinishedSearch, fastest: Evaluated, others: Iterable[Evaluated]) -> Choice | None:
    """The simplest of the simulated plans that cannot be distinguished from the fastest.

    Args:
        finished: the search, for the memory of plans that it did not ask.
        fastest: the best plan as simulated.
        others: simulated plans, in any order.

    Returns:
        None where the objective is not one that step time alone decides.
    """
    if finished.goals.objectives[0].name not in TIMED:
        return None
    behaviour = finished.branches[fastest.branch].case.behaviour
    least = simplicity(fastest.plan, behaviour)
    simpler = [
        (simplicity(e.plan, behaviour), e.step_time_s, e)
        for e in others
        if e.branch == fastest.branch and e.fits is not False and not e.missed
    ]
    asked, slower = 0, set[Simplicity]()
    for mine, seconds, other in sorted(simpler, key=lambda row: row[:2]):
        if mine >= least or asked >= _ASKED:
            break
        if seconds < fastest.step_time_s:
            continue
        pair = None if mine in slower else _paired(finished, fastest, other)
        if pair is None or pair.told_apart:
            slower.add(mine)  # the next ones that are as simple take longer still
            continue
        asked += 1
        known = finished.simulate_memory(other)
        if known is not None and known.feasible:
            differs = tuple(n for n in Simplicity._fields if getattr(mine, n) != getattr(least, n))
            sure = pair.probability_a_faster if pair.pairs else None
            return _choice(finished, known, fastest, sure, differs, pair)
    return _choice(finished, fastest, fastest, None, (), None)


def _choice(
    finished: FinishedSearch,
    taken: Evaluated,
    fastest: Evaluated,
    sure: float | None,
    differs: tuple[str, ...],
    pair: PairedDifference | None,
) -> Choice:
    branch = finished.branches[taken.branch]
    return Choice(
        plan=shown(taken.plan, branch.candidates),
        step_time_s=taken.step_time_s,
        reserved_bytes=taken.reserved_bytes,
        scenario=scenario_with_plan(branch, taken.plan).model_dump(mode="json", exclude_unset=True),
        same=taken is fastest,
        slower=taken.step_time_s / fastest.step_time_s - 1.0,
        probability_fastest_faster=sure,
        differs=differs,
        paired=pair,
    )


def _paired(finished: FinishedSearch, a: Evaluated, b: Evaluated) -> PairedDifference | None:
    case = finished.branches[a.branch].case
    subjects = []
    for entry in (a, b):
        try:
            plan = resolve(case.model, case.cluster, case.training, entry.plan, case.behaviour, ProblemList())
        except BadInput:
            return None
        if plan is None:
            return None
        subjects.append(describe(case.training, case.cluster, case.model, plan))
    bands = [interval_of(s, e.step_time_s, site_known=True) for s, e in zip(subjects, (a, b), strict=True)]
    return paired_difference(subjects[0], subjects[1], a.step_time_s, b.step_time_s, bands[0], bands[1])
