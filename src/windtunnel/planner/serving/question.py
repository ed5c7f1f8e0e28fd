"""What a scenario asks of the serving planner, looked up, with everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel import catalog
from windtunnel.errors import UNSET, BadInput, ProblemList, attempt
from windtunnel.importers.model import resolve_model
from windtunnel.planner.question import devices_of, prices_of, reference_of
from windtunnel.planner.serving.fixed_techniques import with_techniques
from windtunnel.planner.serving.objectives import DEFAULT_FREE, DEFAULT_GIVEN, Goals
from windtunnel.serving.deployment_checks import unserved
from windtunnel.serving.released_formats import Assumed, with_released_formats
from windtunnel.serving.traffic import Traffic, generate
from windtunnel.specs.autoscale import AutoscaleSpec
from windtunnel.specs.cluster import ClusterRef, ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.search import SearchSpec
from windtunnel.specs.serving import PoolSpec, ServingPlan, ServingSpec
from windtunnel.specs.traffic import TrafficSpec

GRID = 2.0**0.25
"""Neighbouring loads of a grid, as a factor."""
MOST_IN_FLIGHT = 512
"""Closed loops are tried up to so many requests for each device."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster of the search."""

    cluster: ClusterSpec
    reference: Any
    """As a scenario writes it."""
    price: float | None
    """Money for a device and hour."""
    group: int | None = None
    """Name of the group in a heterogeneous cluster, as pools give it."""
    whole: ClusterSpec | None = None
    """All groups of that cluster."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Model, clusters, traffic and goals of a search."""

    scenario: Scenario
    folder: Path
    model: ModelSpec
    places: tuple[Place, ...]
    serving: ServingSpec
    pool: PoolSpec
    """What all candidates start from."""
    wanted: SearchSpec
    goals: Goals
    load: str
    """rate_per_s, concurrency, or `given`: a trace or an offline batch."""
    free: bool
    """Whether the load is searched."""
    pinned: frozenset[str]
    """Axes that the scenario's pool sets."""
    lines: Any = None
    assumed: Assumed = ()
    """Formats that the checkpoint decides."""
    autoscale: AutoscaleSpec | None = None
    """Bounds and target of an autoscaler; candidates themselves keep their instances."""

    def traffic(self, load: float) -> Traffic:
        """Requests at a load (rate or requests in flight); times of a run may be written into them."""
        spec = self.serving.traffic
        if self.load != "given":
            value: Any = int(load) if self.load == "concurrency" else load
            spec = spec.model_copy(update={self.load: value})
        try:
            return generate(spec, folder=self.folder)
        except BadInput as error:
            raise error.located(self.lines) from None


def question_of(scenario: Scenario, folder: Path, lines: Any) -> Question:
    """Everything that a scenario leaves open, looked up.

    Raises:
        BadInput: everything wrong with it, at once.
    """
    problems = ProblemList(lines)
    wanted = scenario.search or SearchSpec(target="serving")
    model = attempt("model", lambda: resolve_model(scenario, folder), problems)
    base = attempt("cluster", lambda: catalog.resolve_cluster(scenario.cluster), problems)
    serving = scenario.serving
    if serving is None:
        problems.add("serving", None, "is required by search.target serving: traffic at least")
    if base is None:
        problems.raise_if_any()
    assert base is not None
    places = _places(scenario, base, wanted, problems)
    if model is not None and (why := unserved(model)) is not None:
        problems.add("model", model.name, why)
    problems.raise_if_any()
    assert serving is not None and model is not None
    if len(serving.pools) > 1 or any(p.role != "mixed" for p in serving.pools):
        rule = "at most one mixed pool: the planner makes the others (search.space.deployment)"
        problems.add("serving.pools", f"{len(serving.pools)} pools", rule)
    pool, pinned = _pool(scenario, serving)
    if scenario.techniques:
        serving = with_techniques(scenario, serving.model_copy(update={"pools": (pool,)}), wanted, problems)
        pool = serving.pools[0]
    assumed: Assumed = ()
    if not wanted.space.weights:
        serving, assumed = with_released_formats(serving, scenario, model, folder)
    if (scaler := serving.autoscale) is not None:
        serving = serving.model_copy(update={"autoscale": None})
    if pool.plan.cp > 1:
        problems.add("serving.pools[0].plan.cp", pool.plan.cp, "must be 1: no cp is searched over")
    _refuse_memory(serving, pool, problems)
    spec = serving.traffic
    if spec.trajectories is not None:
        rule = "are not planned for: bounds count requests, loads count prompts; compare runs of `serve`"
        problems.add("serving.traffic.trajectories", spec.trajectories.method, rule)
    load = "rate_per_s" if spec.rate_per_s else "concurrency" if spec.concurrency else "given"
    for axis in ("rate_per_s", "concurrency"):
        if getattr(wanted.space, axis) and axis != load:
            problems.add(f"search.space.{axis}", list(getattr(wanted.space, axis)), f"needs serving.traffic.{axis}")
    several = len(getattr(wanted.space, load, None) or ()) > 1
    if load == "rate_per_s" and spec.num_requests is None and (several or "objective" in wanted.model_fields_set):
        problems.add("serving.traffic.num_requests", UNSET, "is needed where the load is searched")
    goals = _goals(wanted, serving, load, problems)
    for place in places:
        if goals.needs("price") and place.price is None:
            name = place.cluster.device.id
            rule = f"is needed for {goals.needing('price')}: no price of {name} is known (money a device-hour)"
            problems.add(f"search.prices.{name}", UNSET, rule)
        if goals.needs("power") and not place.cluster.device.tdp_w:
            rule = f"its data sheet gives no power (tdp_w), which {goals.needing('power')} needs"
            problems.add("cluster.device", place.cluster.device.id, rule)
    problems.raise_if_any()
    free = load != "given" and goals.objectives[0].of_load and not getattr(wanted.space, load)
    if scaler is not None:
        _check_scaler(scaler, serving, wanted, load, problems, free=free)
        problems.raise_if_any()
    return Question(
        scenario=scenario,
        folder=folder,
        model=model,
        places=tuple(places),
        serving=serving,
        pool=pool,
        wanted=wanted,
        goals=goals,
        load=load,
        free=free,
        pinned=pinned,
        lines=lines,
        autoscale=scaler,
        assumed=assumed,
    )


def loads_of(question: Question, most_devices: int) -> tuple[float, ...]:
    """Loads of the candidates: the given one, those of the space, or a grid.

    A grid of rates spans a factor of 64 below and above the traffic's rate; one of requests in flight goes from 1 to
    `MOST_IN_FLIGHT` a device.
    """
    spec: TrafficSpec = question.serving.traffic
    if question.load == "given":
        return (0.0,)
    listed = getattr(question.wanted.space, question.load)
    if listed:
        return tuple(sorted({float(x) for x in listed}))
    own = float(getattr(spec, question.load))
    if not question.free:
        return (own,)
    if question.load == "concurrency":
        top, out, x = min(MOST_IN_FLIGHT * most_devices, spec.num_requests or 10**9), [], 1.0
        while x <= top:
            out.append(float(round(x)))
            x *= GRID
        return tuple(sorted({*out, own}))
    return tuple(float(f"{own * GRID**k:.6g}") for k in range(-24, 25))


def _goals(wanted: SearchSpec, serving: ServingSpec, load: str, problems: ProblemList) -> Goals:
    names: tuple[str, ...] = wanted.objectives
    if "objective" not in wanted.model_fields_set:
        stated = load == "rate_per_s" or (load == "given" and not serving.traffic.offline)
        names = (DEFAULT_GIVEN,) if stated and not wanted.space.rate_per_s else (DEFAULT_FREE,)
    return Goals.of(names, wanted, serving.slo)


def _check_scaler(
    scaler: AutoscaleSpec, serving: ServingSpec, wanted: SearchSpec, load: str, problems: ProblemList, *, free: bool
) -> None:
    """What bounds of an autoscaler are searched for."""
    where = "serving.autoscale"
    if scaler.method != "replicas":
        rule = "must be replicas: sizes of one instance are not searched over; compare runs of `serve`"
        problems.add(f"{where}.method", scaler.method, rule)
    if "disaggregated" in (wanted.space.deployment or ()):
        problems.add("search.space.deployment", "disaggregated", f"stands without {where}, which scales one pool")
    if load == "concurrency" or serving.traffic.offline:
        problems.add(where, UNSET, "needs requests that come by the clock (rate_per_s or a trace); leave it out")
    if free or len(getattr(wanted.space, load, None) or ()) > 1:
        problems.add(where, UNSET, "needs the traffic's own load: an objective such as devices or cost_per_hour")


def _refuse_memory(serving: ServingSpec, pool: PoolSpec, problems: ProblemList) -> None:
    """What `serve` runs in the reference loop, or with memory beside the instances: a search has neither."""
    where, kv = "serving.pools[0]", pool.kv
    set_ones = {
        f"{where}.kv.tiers": bool(kv.tiers),
        f"{where}.kv.lending": kv.lending,
        f"{where}.kv.similar": kv.similar is not None,
        f"{where}.kv.swap": kv.swap is not None,
        f"{where}.sm_split": pool.sm_split is not None,
        "serving.mesh": serving.mesh is not None,
    }
    for name, is_set in set_ones.items():
        if is_set:
            problems.add(name, "set", "is not planned for: leave it out, and compare runs of `serve`")


def _pool(scenario: Scenario, serving: ServingSpec) -> tuple[PoolSpec, frozenset[str]]:
    """The pool that candidates start from, and the axes it pins."""
    if serving.pools:
        pool = serving.pools[0]
        told = {*pool.plan.model_fields_set}
        told |= {n for n in ("max_num_seqs", "max_num_batched_tokens") if getattr(pool.limits, n) is not None}
        told |= {"replicas"} & pool.model_fields_set
        return pool, frozenset(told)
    plan = scenario.plan
    told = {n for n in ("tp", "pp", "ep", "dp") if n in plan.model_fields_set and isinstance(getattr(plan, n), int)}
    own = ServingPlan(**{n: getattr(plan, n) for n in told})
    return PoolSpec(plan=own), frozenset(told)


def _places(scenario: Scenario, base: ClusterSpec, wanted: SearchSpec, problems: ProblemList) -> list[Place]:
    """One for each device type of the space, or for each group of a cluster."""
    prices = prices_of(wanted, base, problems)
    if not isinstance(base, MixedCluster):
        return [_place(scenario.cluster, base, name, prices.get(name)) for name in devices_of(wanted, base, problems)]
    if wanted.space.device is not None:
        rule = "is not read with groups: the groups are the device types; leave it out"
        problems.add("search.space.device", list(wanted.space.device), rule)
    out = []
    for number, part in enumerate(base.groups):
        own = part.price_per_device_hour
        known = own if own is not None else part.device.price_per_hour
        price = prices.get(part.device.id) or known
        out.append(Place(part, scenario.cluster, price, number, base))
    return out


def _place(written: Any, base: ClusterSpec, device: str, price: float | None) -> Place:
    reference = reference_of(written, base, device, base.nodes, price)
    if isinstance(reference, ClusterRef) and device != base.device.id and base.devices_per_node:
        reference = reference.model_copy(update={"devices_per_node": base.devices_per_node})
    cluster = catalog.resolve_cluster(reference)
    own = cluster.price_per_device_hour
    return Place(cluster, reference, price or (own if own is not None else cluster.device.price_per_hour))
