"""Instances that programs are served by: deployments of models and of the verifier, side by side in one loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput, Infeasible, Problem
from windtunnel.scenarios.source import FieldsInFolder
from windtunnel.serving.deployment import Deployment, prepare
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel.serving.side_by_side import serve_side_by_side
from windtunnel.serving.simulate import serve_requests
from windtunnel.specs.cluster import ClusterRef, ClusterSpec
from windtunnel.specs.programs import ServedModel, traffic_of
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingPlan

__all__ = ["Deployed", "NotServed", "deploy", "serve"]

MOST_TP = 64
CACHE_SHARE = 0.25
"""Of weights and KV cache together, what the cache must have where nobody states a plan: an instance with less runs few
sequences at once, and nobody would run it."""
_SECTIONS = ("schema_version", "model", "cluster", "plan", "serving", "techniques")
"""Sections of a scenario that a deployment reads."""
_OF_ANSWERS = ("autoscale", "mesh", "speculation", "expert_load", "sparse_reads")
"""Settings of `serving` that are of the instances that answer, and not of other models next to them."""
_OF_ITS_MEMORY = ("tiers", "swap", "lending", "similar")
"""Settings of `kv` likewise."""


class NotServed(Exception):
    """A candidate's calls cannot be served as the scenario states its instances; others may be."""

    def __init__(self, error: BadInput) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """Deployments that serve the programs of a candidate."""

    answers: Deployment
    name: str
    """Of the model that answers, as the scenario has it."""
    verifier: Deployment | None
    """None: the model that answers scores too, or nothing is scored."""
    roles: tuple[tuple[str, Deployment], ...] = ()
    """Further models, by their names in `programs.roles`."""
    assumed: tuple[tuple[str, Any, str], ...] = ()
    replicas_open: bool = False
    """Whether nobody states the number of instances that answer."""

    @property
    def all(self) -> tuple[Deployment, ...]:
        """Those there are, by the number of their group of instances."""
        return (self.answers, *(() if self.verifier is None else (self.verifier,)), *(d for _, d in self.roles))

    @property
    def role_pools(self) -> dict[str, int]:
        """Numbers of the groups of instances of further models."""
        first = len(self.all) - len(self.roles)
        return {name: first + i for i, (name, _) in enumerate(self.roles)}

    @property
    def names(self) -> tuple[str, ...]:
        """Of all models, each once: with what it does where two are the same."""
        out: list[str] = [self.answers.model.name]
        beside = [] if self.verifier is None else [("verifier", self.verifier)]
        for what, d in (*beside, *self.roles):
            out.append(d.model.name if d.model.name not in out else f"{d.model.name} ({what})")
        return tuple(out)

    @property
    def num_devices(self) -> int:
        """Devices of all of them."""
        return sum(d.num_devices for d in self.all)

    @property
    def usd_per_s(self) -> float | None:
        """Price of all devices; None where one has no price."""
        prices = [_price(d) for d in self.all]
        return None if None in prices else sum(p for p in prices if p is not None)

    def usd(self, results: Sequence[ServingResult], span_s: float) -> float | None:
        """Price of a run: of devices as long as they are held; None where one has no price.

        Args:
            results: of the deployments, in their order.
            span_s: from the first arrival to the last end.
        """
        total = 0.0
        for d, r in zip(self.all, results, strict=True):
            price = _price(d)
            if price is None:
                return None
            held = r.scaling.get("device_hours") if r.scaling else None
            total += price * (span_s if held is None else held * 3600.0 / d.num_devices)
        return total


def deploy(
    source: dict[str, Any],
    scenario: Scenario,
    folder: Path,
    model: ServedModel | None,
    plan: ServingPlan | None = None,
    *,
    scored: bool,
    roles: Sequence[str] = (),
) -> Deployed:
    """Resolve the deployments of a candidate.

    Args:
        source: fields of the scenario.
        scenario: the same, checked.
        folder: that paths are relative to.
        model: which model answers; None: the scenario's own.
        plan: of one of its instances; None: as model and scenario say.
        scored: whether answers are scored by a verifier of its own.
        roles: further models that it calls.

    Raises:
        BadInput: everything wrong with a deployment.
        Infeasible: a model does not fit.
    """
    programs = scenario.programs
    assert programs is not None
    assumed: list[tuple[str, Any, str]] = []
    of_others: list[tuple[str, Any, str]] = []
    where = "serving" if model is None else "programs.models"
    verifier, taken = None, 0
    if scored and programs.verifier is not None and programs.verifier.model:
        verifier = _deployment(source, folder, programs.verifier, "programs.verifier", of_others, beside=True)
        taken += 0 if programs.verifier.cluster else verifier.num_devices
    further = []
    for name in roles:
        own = programs.roles[name]
        further.append((name, _deployment(source, folder, own, f"programs.roles.{name}", of_others, beside=True)))
        taken += 0 if own.cluster else further[-1][1].num_devices
    if model is not None and model.cluster:
        taken = 0
    try:
        answers = _deployment(source, folder, model, where, assumed, plan, taken=taken)
    except BadInput as error:
        place = -1 if model is None or model not in programs.models else programs.models.index(model)
        raise BadInput([_placed(problem, place) for problem in error.problems]) from None
    assumed += of_others
    stated = model.model if model else source.get("model")
    name = stated if isinstance(stated, str) else answers.model.name
    return Deployed(
        answers=answers,
        name=name + _apart(model, answers, programs.models),
        verifier=verifier,
        roles=tuple(further),
        assumed=tuple(assumed),
        replicas_open=any(field in ("serving.replicas", "programs.models.replicas") for field, _, _ in assumed),
    )


def _placed(problem: Problem, place: int) -> Problem:
    """A problem of `programs.models` with the place in the list."""
    first = "programs.models."
    if place < 0 or not problem.field.startswith(first):
        return problem
    return replace(problem, field=f"programs.models[{place}].{problem.field.removeprefix(first)}")


def _apart(model: ServedModel | None, answers: Deployment, models: Sequence[ServedModel]) -> str:
    """What tells a model from others of its name in `programs.models`: devices, plan, instances."""
    others = [m for m in models if model is not None and m is not model and m.model == model.model]
    if model is None or not others:
        return ""
    parts = []
    if any(m.cluster != model.cluster for m in others):
        parts.append(answers.cluster.device.id)
    if any(m.plan != model.plan for m in others) and model.plan is not None:
        axes = model.plan.model_dump(exclude_defaults=True) or {"tp": 1}
        parts.append(" ".join(f"{axis}={value}" for axis, value in axes.items()))
    if any(m.replicas != model.replicas for m in others) and model.replicas is not None:
        parts.append(f"{model.replicas} of them")
    return f" ({', '.join(parts)})" if parts else ""


def with_replicas(deployed: Deployed, replicas: int) -> Deployed:
    """The same with another number of instances that answer."""
    fields = deployed.answers.scenario.model_dump(mode="json", exclude_unset=True)
    fields["serving"]["pools"][0]["replicas"] = replicas
    return replace(deployed, answers=prepare(FieldsInFolder(fields, deployed.answers.folder)))


def serve(deployed: Deployed, requests: Requests) -> tuple[ServingResult, ...]:
    """Serve the calls of all programs; times are written into `requests`. One result for each deployment.

    Raises:
        NotServed: what the scenario states of its instances does not go with these programs.
    """
    try:
        if len(deployed.all) == 1:
            return (serve_requests(deployed.answers, requests),)
        return serve_side_by_side(deployed.all, requests)
    except BadInput as error:
        raise NotServed(error) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """A model's instances as a scenario states them."""

    fields: dict[str, Any]
    """Of a scenario for `serve`, without pools."""
    pool: dict[str, Any]
    """Settings of the pool next to plan and replicas."""
    model: ServedModel
    folder: Path
    where: str
    """Field that states them."""
    beside: bool
    """Whether they serve next to those that answer."""
    taken: int
    """Devices of the cluster that others have."""

    def deployment(self, plan: dict[str, Any], replicas: int) -> Deployment:
        """The deployment under a plan.

        Raises:
            BadInput: what the model's own fields get wrong, at these fields.
        """
        serving = {**self.fields["serving"], "pools": [{**self.pool, "plan": plan, "replicas": replicas}]}
        try:
            return prepare(FieldsInFolder({**self.fields, "serving": serving}, self.folder))
        except BadInput as error:
            raise BadInput([self._own(problem) for problem in error.problems]) from None

    def _own(self, problem: Problem) -> Problem:
        """A problem of the deployment's scenario, where the model states the field itself."""
        first, own = "serving.pools[0].", self.model
        if self.where == "serving":
            stated = own.plan is not None and (problem.field.startswith(f"{first}plan") or problem.field == first[:-4])
            return replace(problem, field=f"programs.plans ({self.axes})") if stated else problem
        if problem.field.partition(".")[0] in ("model", "cluster"):
            return replace(problem, field=f"{self.where}.{problem.field}")
        if problem.field.startswith(f"{first}plan") and own.plan is not None:
            return replace(problem, field=f"{self.where}.{problem.field.removeprefix(first)}")
        if problem.field == "serving.pools" and own.replicas is not None:
            return replace(problem, field=f"{self.where}.replicas", value=own.replicas)
        return problem

    @property
    def axes(self) -> str:
        """The plan that is stated: `tp=2 pp=2`."""
        stated = {} if self.model.plan is None else self.model.plan.model_dump(exclude_unset=True)
        return " ".join(f"{axis}={value}" for axis, value in stated.items())


def _deployment(
    fields: dict[str, Any],
    folder: Path,
    model: ServedModel | None,
    where: str,
    assumed: list[tuple[str, Any, str]],
    plan: ServingPlan | None = None,
    *,
    beside: bool = False,
    taken: int = 0,
) -> Deployment:
    """One model's instances: as the scenario states them, else the least tp that holds it on devices that are free."""
    own = {name: fields[name] for name in _SECTIONS if name in fields}
    serving = {**(own.get("serving") or {}), "traffic": traffic_of(fields["programs"])}
    pools = serving.pop("pools", None)
    if model is None and plan is None and (pools or own.get("plan")):
        return prepare(FieldsInFolder({**own, "serving": {**serving, **({"pools": pools} if pools else {})}}, folder))
    own.pop("plan", None)
    if model is not None:
        own["model"] = {"config": model.model} if model.model.endswith(".json") else model.model
        if isinstance(model.cluster, ClusterRef):
            own["cluster"] = model.cluster.model_dump(exclude_unset=True)
        elif model.cluster:
            own["cluster"] = model.cluster
    pool = {k: v for k, v in (pools or [{}])[0].items() if k not in ("plan", "replicas", "role", "group")}
    if beside:
        serving = {k: v for k, v in serving.items() if k not in _OF_ANSWERS}
        pool.pop("sm_split", None)
        if pool.get("kv"):
            pool["kv"] = {k: v for k, v in pool["kv"].items() if k not in _OF_ITS_MEMORY}
    wanted = _Wanted(
        fields={**own, "serving": serving},
        pool=pool,
        model=(model or ServedModel(model="-")).model_copy(update={} if plan is None else {"plan": plan}),
        folder=folder,
        where=where,
        beside=beside,
        taken=taken,
    )
    return _sized(wanted, assumed)


def _sized(wanted: _Wanted, assumed: list[tuple[str, Any, str]]) -> Deployment:
    """Choose what a scenario leaves open: tensor parallelism, and the number of instances."""
    stated, replicas = wanted.model.plan, wanted.model.replicas
    if stated is not None:
        plan = stated.model_dump(exclude_unset=True)
        found = wanted.deployment(plan, replicas or 1)
    else:
        plan, found = _least_tp(wanted, replicas or 1)
        why = f"least tensor parallelism that holds {found.model.name} and leaves a quarter of that to the KV cache"
        assumed.append((f"{wanted.where}.plan", f"tp={plan['tp']}", why))
    if replicas is None and wanted.beside:
        assumed.append((f"{wanted.where}.replicas", 1, "not stated: one instance, next to those that answer"))
    elif replicas is None:
        free = found.cluster.num_devices - wanted.taken
        fits = max(free // found.pool.plan.num_devices, 1)
        others = f" next to {wanted.taken} for the verifier and further models" if wanted.taken else ""
        assumed.append((f"{wanted.where}.replicas", fits, f"as many as the cluster's devices hold{others}"))
        found = wanted.deployment(plan, fits) if fits > 1 else found
    return found


def _least_tp(wanted: _Wanted, replicas: int) -> tuple[dict[str, Any], Deployment]:
    """The least power of two that leaves the KV cache `CACHE_SHARE` of what weights leave of memory and take of it.

    Where no such plan is allowed on the cluster, the widest that holds the model.
    """
    found: tuple[dict[str, Any], Deployment] | None = None
    tp = 1
    while tp <= MOST_TP:
        plan = {"tp": tp}
        try:
            found = plan, wanted.deployment(plan, replicas)
        except Infeasible:
            if tp == MOST_TP:
                raise
        except BadInput:  # a tp that the cluster or the heads do not allow: what one device says is the reason
            if found is not None:
                return found
            if tp > 1:
                wanted.deployment({"tp": 1}, replicas)
            raise
        if found is not None:
            own = found[1].instance.capacity
            if own.cache_bytes >= CACHE_SHARE * (own.cache_bytes + own.weights_bytes):
                return found
        tp *= 2
    assert found is not None
    return found


def _price(d: Deployment) -> float | None:
    """USD a second of all devices of a deployment, each pool's at the price of the group that it is on."""
    hours = [hour_of(pool.cluster) for pool in d.pools]
    if None in hours:
        return None
    return sum(h * pool.num_devices for h, pool in zip(hours, d.pools, strict=True) if h is not None) / 3600.0


def hour_of(cluster: ClusterSpec) -> float | None:
    """USD of a device for an hour; None where neither the cluster nor the device has a price."""
    own = cluster.price_per_device_hour
    return own if own is not None else cluster.device.price_per_hour
