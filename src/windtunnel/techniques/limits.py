"""Limit cases: where a technique must gain, where its gain must vanish, and where it must lose.

A technique has its `Limits` in a file of `limit_cases/`, or declares them. Tests are generated from them for every
entry of the registry (see docs/techniques/overview.md). Scenarios are plain mappings as a user would write them, merged
field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from windtunnel.data_files import ROOT, read_yaml
from windtunnel.units import parse_quantity

if TYPE_CHECKING:
    from windtunnel.specs.cluster import ClusterSpec

HUGE_BYTES_PER_S = 1e16

RESOURCES: Mapping[str, str] = {
    "compute": "matrix products and what else keeps the SMs busy",
    "memory bandwidth": "reads and writes of device memory",
    "memory": "room on the device",
    "scale-up": "traffic inside a scale-up domain",
    "scale-out": "traffic between scale-up domains",
    "network": "traffic inside and between scale-up domains",
    "host link": "traffic between device and host (PCIe)",
    "host memory": "room in the host",
    "storage": "reads and writes of NVMe or disks",
    "host": "launches that the host issues, and its own computation",
    "bubble": "stages that wait for others",
    "imbalance": "ranks that wait for the one with most to do",
    "waiting": "requests that wait for others",
    "checkpoints": "steps that stop or slow down while their state is saved",
    "recovery": "time from a failure to the next new step: detection, restart, repeated work, missing nodes",
    "stragglers": "workers that the others of a step wait for",
    "queue": "jobs that wait for devices, and devices that stand empty meanwhile",
    "energy": "joules, watts and carbon of a room",
}
"""What a technique may relieve (`Technique.relieves`) → what that is."""

_NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "scale-up": {
        "cluster": {"scale_up": {"id": "free", "family": "generic", "bytes_per_s": HUGE_BYTES_PER_S, "latency_s": 0.0}}
    },
    "scale-out": {
        "cluster": {
            "scale_out": {
                "nics_per_node": 8,
                "nic_bytes_per_s": HUGE_BYTES_PER_S,
                "latency_s": 0.0,
                "family": "generic",
            }
        }
    },
}


def _cluster(scenario: Mapping[str, Any]) -> ClusterSpec:
    """The scenario's cluster, looked up."""
    from windtunnel import catalog
    from windtunnel.specs.cluster import ClusterRef

    given = scenario["cluster"]
    return catalog.resolve_cluster(given if isinstance(given, str) else ClusterRef.model_validate(given))


def _free_host_link(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's own device with a link to its host that takes no time."""
    device = _cluster(scenario).device.model_copy(update={"pcie_bytes_per_s": HUGE_BYTES_PER_S})
    return {"cluster": {"device": device.model_dump()}}


FREE: Mapping[str, Mapping[str, Any]] = {
    **_NETWORKS,
    "network": {"cluster": {key: value for one in _NETWORKS.values() for key, value in one["cluster"].items()}},
    "bubble": {"plan": {"pp": 1, "vpp": 1}},
    "memory bandwidth": {"cluster": {"memory_bytes_per_s": HUGE_BYTES_PER_S}},
    "memory": {"cluster": {"memory_bytes": 1e15}},
    "host memory": {"cluster": {"host_memory_bytes": 1e18}},
    "host": {"training": {"cuda_graphs": "full"}},
}
"""Saved resource → what makes it free."""
FREE_IN: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {"host link": _free_host_link}
"""Saved resource → what makes it free in a scenario, where that depends on its devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Cases that tests are generated from."""

    scenario: Mapping[str, Any]
    """A case without the technique, in which it gains."""
    measure: str = "step_time_s"
    """Field of the result that it makes smaller, parts of it by dots (`tpot_s.mean`).

    Scenarios with a `serving` section are served, those with `run` are whole runs, those with `jobs` clusters,
    those with `learning` compare algorithms (`last.hours`), and others are trained."""
    larger: bool = False
    """Whether more of `measure` is better (throughput)."""
    free: Mapping[str, Any] | None = None
    """Merged into the scenario: the saved resource costs nothing. Absent: `FREE[technique.saves]`."""
    vanishes: float = 0.01
    """Largest relative change allowed where the resource is free."""
    costly: Mapping[str, Any] = field(default_factory=dict)
    """Knobs at which the technique costs more than it saves."""
    costly_scenario: Mapping[str, Any] = field(default_factory=dict)
    """Merged into the scenario: a case in which its cost is not paid back."""
    pays: str = ""
    """Field of the result that grows: what the gain in `measure` is paid with, in the costly case if one is given."""
    monotone: bool = False
    """Whether the gain shrinks as there is more of the saved resource (`more`), from the declared scenario on."""
    repeats_work: bool = False
    """Whether it changes the FLOPs that run (recomputation); else they must be equal."""

    @property
    def serves(self) -> bool:
        """Whether the cases are served."""
        return "serving" in self.scenario

    @property
    def trains(self) -> bool:
        """Whether the cases are single training steps."""
        return not {"serving", "run", "jobs", "learning", "programs"} & {*self.scenario}

    def value(self, result: Any, name: str = "") -> float:
        """What a result says of `measure`, or of another field."""
        found = result
        for part in (name or self.measure).split("."):
            found = found[part] if isinstance(found, Mapping) else getattr(found, part)
        return float(found)

    def gain(self, before: Any, after: Any) -> float:
        """Relative amount by which `measure` is better after than before."""
        a, b = self.value(before), self.value(after)
        return b / a - 1.0 if self.larger else a / b - 1.0

    @property
    def loses(self) -> bool:
        """Whether a case is declared in which `measure` itself gets worse."""
        return bool(self.costly or self.costly_scenario) and not self.pays


@cache
def limits_in_file(technique_id: str) -> Limits | None:
    """The limit cases of one of our own techniques, from `limit_cases/<id>.yaml`; None where it has no such file."""
    path = f"techniques/limit_cases/{technique_id}.yaml"
    return Limits(**read_yaml(path)) if (ROOT / path).is_file() else None


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `change` laid over it; mappings are merged, everything else is replaced."""
    out = dict(base)
    for key, value in change.items():
        known = out.get(key)
        out[key] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return out


def with_technique(
    scenario: Mapping[str, Any], technique_id: str, knobs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The scenario with one technique added."""
    return merged(scenario, {"techniques": [*scenario.get("techniques", ()), {technique_id: dict(knobs or {})}]})


def free_case(scenario: Mapping[str, Any], saves: str, free: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The scenario with the saved resource free, None when nothing says how."""
    change = FREE.get(saves) if free is None else free
    if change is None and saves in FREE_IN:
        change = FREE_IN[saves](scenario)
    return None if change is None else merged(scenario, change)


def more(scenario: Mapping[str, Any], resource: str, factor: float) -> dict[str, Any] | None:
    """The scenario with so many times as much of a resource, None where nothing says how.

    Args:
        scenario: as a user would write it.
        resource: of `RESOURCES`; of `bubble` there is less with more micro-batches.
        factor: at least 1; a whole number for `bubble`.
    """
    if resource == "bubble":
        batch = scenario["training"]["global_batch"] * int(factor)
        return merged(scenario, {"training": {"global_batch": batch}})
    if "groups" in scenario["cluster"]:
        between = scenario["cluster"].get("between")
        if resource not in ("scale-out", "network") or not isinstance(between, Mapping):
            return None
        rate = parse_quantity(between["nic_bytes_per_s"], "bytes/s") * factor
        return merged(scenario, {"cluster": {"between": {"nic_bytes_per_s": rate}}})
    own = _cluster(scenario)
    up = own.scale_up.model_copy(update={"bytes_per_s": own.scale_up.bytes_per_s * factor}).model_dump()
    out = own.scale_out.model_copy(update={"nic_bytes_per_s": own.scale_out.nic_bytes_per_s * factor}).model_dump()
    link = own.device.model_copy(update={"pcie_bytes_per_s": own.device.pcie_bytes_per_s * factor})
    change: dict[str, dict[str, Any]] = {
        "scale-up": {"scale_up": up},
        "scale-out": {"scale_out": out},
        "network": {"scale_up": up, "scale_out": out},
        "memory bandwidth": {"memory_bytes_per_s": own.device.memory_bytes_per_s * factor},
        "memory": {"memory_bytes": own.device.memory_bytes * factor},
        "host memory": {"host_memory_bytes": own.host_memory_bytes * factor},
        "host link": {"device": link.model_dump()},
    }
    return merged(scenario, {"cluster": change[resource]}) if resource in change else None
