"""Entries of other registries that a technique switches on: a schedule, a device, a link, a collective, a policy.

`Technique.selects` maps a slot to an id, or to the knob that holds the id (`"$order"`). Each slot is a field that a
scenario can set without the technique; a value of None leaves the field as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.plan import PlanSpec
    from windtunnel.specs.serving import ServingSpec

SLOTS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "schedule": ("schedule", ("training",), "plan.schedule"),
    "collective": ("plan", ("training",), "plan.collectives: `collective.AXIS.OPERATION`, AXIS `all` for every group"),
    "library": ("plan", ("training",), "plan.collective_library"),
    "device": ("plan", ("training", "serving"), "cluster.device"),
    "scale_up": ("plan", ("training", "serving"), "cluster.scale_up"),
    "scale_out": ("plan", ("training", "serving"), "cluster.scale_out: the link of each port"),
    "router": ("run", ("serving",), "serving.router"),
    "policy": ("run", ("serving",), "serving.pools.policy"),
    "queue": ("run", ("serving",), "serving.pools.queue"),
    "admission": ("run", ("serving",), "serving.pools.admission"),
}
"""Slot → level, what it acts on, the field that it sets."""
CLUSTER = frozenset(("device", "scale_up", "scale_out"))
"""Slots that exchange a part of the cluster."""
_POOL = ("policy", "queue", "admission")


def slot_of(key: str) -> str:
    """`collective.tp.all_reduce` → `collective`."""
    return key.partition(".")[0]


def scopes(selects: Mapping[str, Any]) -> set[str]:
    """What selections act on: training, serving."""
    return {scope for key in selects for scope in SLOTS[slot_of(key)][1]}


def chosen(selects: Mapping[str, Any], knobs: Mapping[str, Any]) -> dict[str, Any]:
    """Slot → id, knobs looked up; those without a value left out."""
    found = {
        key: knobs[value[1:]] if isinstance(value, str) and value.startswith("$") else value
        for key, value in selects.items()
    }
    return {key: value for key, value in found.items() if value is not None}


def on_plan(selects: Mapping[str, Any], plan: PlanSpec, knobs: Mapping[str, Any]) -> PlanSpec:
    """The plan with selected schedules and collectives; schedules need a pipeline."""
    if not selects:
        return plan
    change: dict[str, Any] = {}
    named: dict[str, str] = {}
    for key, value in chosen(selects, knobs).items():
        slot = slot_of(key)
        if slot == "schedule" and plan.pp > 1:
            change["schedule"] = value
        elif slot == "library":
            change["collective_library"] = value
        elif slot == "collective":
            named[key.partition(".")[2]] = value
    if named:
        change["collectives"] = {**plan.collectives, **named}
    return plan.model_copy(update=change) if change else plan


def on_cluster(selects: Mapping[str, Any], cluster: ClusterSpec, knobs: Mapping[str, Any]) -> ClusterSpec:
    """The cluster with selected devices and links.

    Raises:
        BadInput: the catalogue has no such device or link.
    """
    if not selects:
        return cluster
    from windtunnel import catalog

    change: dict[str, Any] = {}
    for key, value in chosen(selects, knobs).items():
        if key == "device":
            change["device"] = catalog.device(value)
        elif key == "scale_up":
            change["scale_up"] = catalog.link(value)
        elif key == "scale_out":
            link = catalog.link(value)
            change["scale_out"] = cluster.scale_out.model_copy(
                update={"nic_bytes_per_s": link.bytes_per_s, "latency_s": link.latency_s, "family": link.family}
            )
    return cluster.model_copy(update=change) if change else cluster


def on_serving(selects: Mapping[str, Any], serving: ServingSpec, knobs: Mapping[str, Any]) -> ServingSpec:
    """The serving section with selected routers, policies, queues and admission rules."""
    found = {key: value for key, value in chosen(selects, knobs).items() if SLOTS[slot_of(key)][1] == ("serving",)}
    if not found:
        return serving
    pool = {key: found[key] for key in _POOL if key in found}
    change: dict[str, Any] = {"router": found["router"]} if "router" in found else {}
    if pool:
        change["pools"] = tuple(one.model_copy(update=pool) for one in serving.pools)
    return serving.model_copy(update=change)
