"""`plan` on a mixed cluster: the best plan over all groups, next to an even share and the best group alone."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

from windtunnel.cost.clock import idle_w
from windtunnel.cost.coefficients import coefficients
from windtunnel.cost.framework_defaults import behaviour_of
from windtunnel.errors import BadInput, Infeasible, Problem, ProblemList, SourceLines
from windtunnel.planner.case import Case
from windtunnel.planner.deadline import Deadline
from windtunnel.planner.heterogeneous.search import MixedSearch, Tried, even
from windtunnel.planner.heterogeneous.space import MixedSpace, mixed_space
from windtunnel.planner.objectives import Figures, Goals, Setting
from windtunnel.planner.plan_one_cluster import plan_one_cluster
from windtunnel.planner.plan_scenario import drop_defaults
from windtunnel.planner.request import PlanRequest
from windtunnel.planner.result import PlanResult, Progress, Ranked, Stopped
from windtunnel.planner.space.technique_axes import setters
from windtunnel.planner.space.unpinned_axes import without_plan_axes
from windtunnel.specs.cluster import ClusterRef, MixedCluster, MixedClusterRef
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.run_phases import refuse_run
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec
from windtunnel.techniques import on_workload
from windtunnel.training.predict import look_up, simulate_training

TIMED = (
    "step_time",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "cost_per_million_tokens",
    "cost_per_trillion_tokens",
    "time_to_tokens",
    "cost",
)
"""Objectives that order plans on one cluster by step time."""
_ONE_DEVICE = ("device", "nodes", "precision", "shard_group")
"""Lists of a search space that have no meaning for groups."""


def plan_heterogeneous(request: PlanRequest) -> PlanResult:
    """The best plan of a scenario whose cluster is heterogeneous, with the proof.

    Args:
        request: a scenario with `cluster.groups` and what the answer shall hold; unless `explain` is False, also what
            equal shares and each group alone take.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan fits.
        Stopped: Ctrl-C before any plan was found.
    """
    scenario, written = request.scenario, None
    if request.free:
        written, scenario = simulate_training(scenario, sensitivities=False), without_plan_axes(scenario)
    case, wanted = _case(scenario, request.folder, request.lines)
    cluster = case.cluster
    assert isinstance(cluster, MixedCluster)
    goals, setting = Goals.of(wanted), _setting(cluster, case, wanted)
    space = _checked_space(case, scenario, wanted)
    screened_s = time.perf_counter() - request.begun
    search = MixedSearch(case, space, goals.memory_fraction)
    deadline = request.deadline()
    found, proof = search.search(report=partial(_report, request, space), deadline=deadline)
    if found.best is None and not proof.complete:
        raise Stopped(space.count, space.count, proof.simulated)
    if found.best is None:
        raise Infeasible(*_nearest(found.tried, space, proof.complete))
    rest = {n: getattr(scenario, n) for n in scenario.model_fields_set - {"search", "plan"}}
    best_scenario = Scenario.model_validate({**rest, "plan": drop_defaults(found.best.plan, case)})
    best = simulate_training(best_scenario)
    asked = proof.complete and request.explain is not False and not deadline.passed
    compared = _compared(search, scenario, cluster, deadline) if asked else {}
    ranked = sorted(found.tried, key=lambda e: e.step_time_s)[: wanted.top]
    return PlanResult(
        best=best,
        scenario=best_scenario.model_dump(mode="json", exclude_unset=True),
        frontier=tuple(_row(e, cluster, case, setting, goals) for e in ranked),
        evaluated=len(found.tried),
        pruned={"memory": proof.pruned_by_memory, "bound": proof.pruned_by_bound, "refused": proof.refused},
        excluded=space.excluded,
        proof=proof,
        elapsed_s=time.perf_counter() - request.begun,
        screened_per_s=space.count / max(screened_s, 1e-9),
        by_axis=_by_axis(search),
        written=written,
        objectives=(goals.objectives[0].name,),
        compared=compared,
        stopped=None if proof.complete else "time" if deadline.passed else "interrupted",
    )


def _checked_space(case: Case, scenario: Scenario, wanted: SearchSpec) -> MixedSpace:
    """The search space of all groups.

    Raises:
        BadInput: a technique sets sizes of axes.
        Infeasible: there is no legal plan at all.
    """
    space = mixed_space(case, scenario.plan, wanted)
    if not space.count:
        rules = "; ".join(f"{rule} ({number})" for rule, number in space.excluded.items())
        raise Infeasible(f"no legal plan in the search space; left out by rules: {rules or 'schedules'}")
    if names := dict.fromkeys(name for layout in space.layouts for name in setters(case, layout.plan)):
        rule = "sets sizes of axes: not searched on heterogeneous clusters yet; `train` reads it"
        raise BadInput([Problem("techniques", rule, one) for one in names])
    return space


def _report(request: PlanRequest, space: MixedSpace, simulated: int, best: float, bound: float) -> None:
    """Tell the caller how far the search is, where the request asks for that."""
    if request.report:
        request.report(
            Progress(
                candidates=space.count,
                screened=space.count,
                simulated=simulated,
                best=best if best < float("inf") else None,
                next_bound=bound,
                elapsed_s=time.perf_counter() - request.begun,
            )
        )


def _compared(
    search: MixedSearch, scenario: Scenario, cluster: MixedCluster, deadline: Deadline
) -> dict[str, float | None]:
    """Step seconds of the best plan with equal shares, and of the best plan on each group alone.

    Ctrl-C and the deadline leave out what is not worked out yet.
    """
    compared: dict[str, float | None] = {}
    try:
        alike = search.search(even)[0].best
        compared["equal shares of all groups"] = None if alike is None else alike.step_time_s
        for i, g in enumerate(cluster.groups):
            if deadline.passed:
                break
            compared[f"{g.name} alone"] = _alone(scenario, i)
    except KeyboardInterrupt:  # the search is done: what it is compared with is left out
        pass
    return compared


def _case(scenario: Scenario, folder: Path, lines: SourceLines | None) -> tuple[Case, SearchSpec]:
    problems = ProblemList(lines)
    wanted = scenario.search or SearchSpec()
    model, cluster, techniques = look_up(scenario, folder, problems, verb="plan")
    if wanted.target != "training" and scenario.programs is None:
        problems.add("search.target", wanted.target, "only training is planned yet")
    for objective in wanted.objectives:
        if objective not in TIMED:
            rule = f"heterogeneous clusters are planned for {', '.join(TIMED)}"
            problems.add("search.objective", objective, rule)
    if len(wanted.objectives) > 1:
        rule = "on one cluster these order plans alike: name one"
        problems.add("search.objective", list(wanted.objectives), rule)
    for name in sorted(wanted.limits.model_fields_set - {"memory_fraction"}):
        if getattr(wanted.limits, name) is not None:
            rule = "heterogeneous clusters are planned under memory_fraction alone"
            problems.add(f"search.limits.{name}", getattr(wanted.limits, name), rule)
    for name in _ONE_DEVICE:
        if getattr(wanted.space, name) is not None:
            rule = "has no meaning for a heterogeneous cluster"
            problems.add(f"search.space.{name}", list(getattr(wanted.space, name)), rule)
    for one in (t.technique for t in techniques):
        if one.schedule or one.pair or one.run:
            rule = "rewrites what stages run, or when: not searched on heterogeneous clusters yet; `train` reads it"
            problems.add("techniques", one.id, rule)
    training = on_workload(techniques, scenario.training)
    if training is not None:
        refuse_run(training.run, "`plan` of a heterogeneous cluster")
    if model is None or cluster is None or training is None:
        problems.raise_if_any()
        raise AssertionError("a part is missing without a problem")
    problems.raise_if_any()
    case = Case(
        model=model,
        cluster=cluster,
        training=training,
        techniques=techniques,
        behaviour=behaviour_of(training, cluster.device, model),
        coefficients=coefficients(training.framework, cluster.device, cluster),
    )
    return case, wanted


def _setting(cluster: MixedCluster, case: Case, wanted: SearchSpec) -> Setting:
    """Means over all devices; the least memory."""
    total = cluster.num_devices
    watts = price = 0.0
    priced = True
    for g in cluster.groups:
        watts += g.num_devices * (idle_w(g.device) if g.device.tdp_w else 0.0) / total
        own = g.price_per_device_hour or g.device.price_per_hour
        priced = priced and own is not None
        price += g.num_devices * (own or 0.0) / total
    asking = [n for n in wanted.objectives if n.startswith("cost")]
    problems = ProblemList()
    if asking and not priced:
        rule = f"is needed for {asking[0]}: give price_per_device_hour in every group"
        problems.add("cluster.groups", [g.device.id for g in cluster.groups], rule)
    if wanted.tokens is None and set(wanted.objectives) & {"time_to_tokens", "cost"}:
        problems.add("search.tokens", None, "is needed: tokens of the whole run, such as 15T")
    problems.raise_if_any()
    tokens = float(case.training.global_batch) * case.training.seq_len
    least = min(g.device.memory_bytes for g in cluster.groups)
    return Setting(
        devices=total,
        tokens=tokens,
        memory_bytes=least,
        idle_w=watts,
        price_per_device_hour=price if priced else None,
        run_tokens=wanted.tokens,
    )


def _alone(scenario: Scenario, group: int) -> float | None:
    """Step time of the best plan on one group alone; None where nothing fits or runs there."""
    assert isinstance(scenario.cluster, MixedClusterRef)
    reference: ClusterRef | str = scenario.cluster.groups[group]
    left = scenario.plan.model_fields_set - {"group_axis", "batch_shares", "dp", "stage_layers"}
    own = PlanSpec.model_validate({name: getattr(scenario.plan, name) for name in left})
    search = scenario.search
    if search is not None:
        search = search.model_copy(update={"space": search.space.model_copy(update={"group_axis": None})})
    try:
        own_scenario = scenario.model_copy(update={"cluster": reference, "plan": own, "search": search})
        alone = plan_one_cluster(PlanRequest(scenario=own_scenario))
    except (BadInput, Infeasible):
        return None
    return alone.best.step_time_s


def _row(e: Tried, cluster: MixedCluster, case: Case, setting: Setting, goals: Goals) -> Ranked:
    names = ("group_axis", "tp", "cp", "pp", "vpp", "ep", "etp", "dp", "mbs", "zero", "batch_shares", "stage_layers")
    full = e.plan.model_dump(mode="json")
    shown: dict[str, Any] = {name: full[name] for name in names}
    layers = e.plan.recompute.num_layers
    shown["recompute"] = e.plan.recompute.policy + (f":{layers}" if layers is not None else "")
    values = goals.values(Figures(setting, e.step_time_s, 0.0))
    devices = " + ".join(dict.fromkeys(g.device.id for g in cluster.groups))
    return Ranked(
        plan=shown,
        step_time_s=e.step_time_s,
        bound_s=e.bound_s,
        tokens_per_s=setting.tokens / e.step_time_s,
        reserved_bytes=e.reserved_bytes,
        fits=e.fits,
        values=values,
        cluster={"device": devices, "nodes": cluster.nodes},
        precision=case.training.precision,
    )


def _by_axis(search: MixedSearch) -> dict[str, dict[str, float]]:
    """Smallest bound that was computed, for each tp and each pp; later ones of a layout take the place of earlier."""
    out: dict[str, dict[str, float]] = {"tp": {}, "pp": {}}
    for i, x in enumerate(search.space.layouts):
        bound = search.least(i)
        for axis, values in out.items():
            value = str(getattr(x.plan, axis))
            values[value] = min(values.get(value, float("inf")), bound)
    return {axis: {v: s for v, s in values.items() if s < float("inf")} for axis, values in out.items()}


def _nearest(tried: list[Tried], space: MixedSpace, complete: bool) -> tuple[str, str]:
    if not complete:
        return "stopped before a plan that fits was found", f"{len(tried)} of {space.count:,} plans were simulated"
    measured = [e for e in tried if e.reserved_bytes is not None]
    if not measured:
        return f"none of {space.count:,} plans fits", "weights, gradients and optimizer state alone take more memory"
    e = min(measured, key=lambda e: e.reserved_bytes or 0.0)
    p = e.plan
    words = f"tp {p.tp} pp {p.pp} cp {p.cp} dp {p.dp} mbs {p.mbs} recompute {p.recompute.policy}"
    return f"none of {space.count:,} plans fits", f"{(e.reserved_bytes or 0.0) / 2**30:.1f} GiB with {words}"
