"""A scenario's serving section, resolved for writing: every pool with its instances and what the simulator assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.catalog import store
from windtunnel.errors import ProblemList
from windtunnel.scenarios.source import Source
from windtunnel.serving import engine_defaults
from windtunnel.serving.deployment import load_deployment
from windtunnel.serving.deployment_checks import group_of
from windtunnel.serving.engine_defaults import version_of
from windtunnel.specs.cluster import groups_of
from windtunnel.specs.serving import PoolSpec, ServingSpec

if TYPE_CHECKING:
    from windtunnel.serving.engine_defaults import Instance
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.model import ModelSpec


@dataclass(frozen=True, slots=True)
class Pool:
    """Instances that are started by one script."""

    name: str
    """`server` for the only one; else its role, numbered where it repeats."""
    where: str
    """Path of the pool in the scenario, for messages."""
    spec: PoolSpec
    instance: Instance
    cluster: ClusterSpec
    """The group of the cluster that it is on."""
    first_node: int
    """First node of that group."""

    @property
    def devices(self) -> int:
        """Devices of one instance."""
        return self.spec.plan.num_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What is written: pools on a cluster, and the traffic that comes."""

    name: str
    checkpoint: str
    """What a server loads, as the scenario names it."""
    model: ModelSpec
    cluster: ClusterSpec
    serving: ServingSpec
    pools: tuple[Pool, ...]
    folder: Path
    """What paths of the scenario are relative to."""
    techniques: tuple[str, ...]
    """Techniques that are more than settings of the scenario; those that are settings are written as such."""

    @property
    def split(self) -> bool:
        """Whether prompts and answers are computed by different pools."""
        return any(pool.spec.role != "mixed" for pool in self.pools)

    def nodes(self, pool: Pool) -> int:
        """Nodes of one instance."""
        return -(-pool.devices // pool.cluster.devices_per_node)

    def per_node(self, pool: Pool) -> int:
        """Devices of one instance on each of its nodes."""
        return pool.devices // self.nodes(pool)


def deployed(source: Source, overrides: Sequence[str] = ()) -> Deployed:
    """Resolve a scenario for writing.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: weights alone leave no room for a cache.
    """
    o = load_deployment(source, overrides, "is required to write a server's launch files")
    problems, model, cluster, serving = o.problems, o.model, o.cluster, o.serving
    left = []
    for technique in o.techniques:
        changed = technique.on_serving(serving)
        if changed == serving or technique.technique.serving is None or technique.technique.serving.layers is not None:
            left.append(technique.technique.id)
        serving = changed
    serving, _ = o.released(serving)
    if serving.engine_version and not version_of(serving.engine_version):
        rule = "must begin with a release number, such as 0.10.0"
        problems.add("serving.engine_version", serving.engine_version, rule)
    pools = _pools(model, cluster, serving, problems)
    problems.raise_if_any()
    name = o.scenario.name or model.name
    return Deployed(
        name=name,
        checkpoint=_named_checkpoint(o.scenario.model, model),
        model=model,
        cluster=cluster,
        serving=serving,
        pools=pools,
        folder=o.folder,
        techniques=tuple(left),
    )


def _pools(model: ModelSpec, cluster: ClusterSpec, serving: ServingSpec, problems: ProblemList) -> tuple[Pool, ...]:
    """Every pool with its instance and its place; problems are added where a group has too few devices."""
    found, names, groups = [], _names(serving), groups_of(cluster)
    for i, pool in enumerate(serving.pools):
        where = f"serving.pools[{i}]"
        group = group_of(pool, cluster, where, problems)
        own, first = groups[group], sum(part.nodes for part in groups[:group])
        instance = engine_defaults.resolve(serving, pool, model, own, problems, where)
        found.append(Pool(names[i], where, pool, instance, own, first))
    first = 0
    for part in groups:
        need = sum(pool.spec.replicas * pool.devices for pool in found if pool.first_node == first)
        if need > part.num_devices:
            place = "the cluster" if len(groups) == 1 else f"the group of {part.device.id}"
            rule = f"replicas · tp · pp · dp · cp = {need} must not exceed the {part.num_devices} devices of {place}"
            problems.add("serving.pools", need, rule)
        first += part.nodes
    return tuple(found)


def _names(serving: ServingSpec) -> list[str]:
    roles = [pool.role for pool in serving.pools]
    if len(roles) < 2:
        return ["server"]
    named = ["server" if role == "mixed" else role for role in roles]
    return [name if named.count(name) == 1 else f"{name}{named[:i].count(name)}" for i, name in enumerate(named)]


def _named_checkpoint(written: object, model: ModelSpec) -> str:
    """The checkpoint of a scenario.

    Args:
        written: what the scenario says under `model`.
        model: its architecture; many checkpoints share one.
    """
    if not isinstance(written, str):
        return model.name
    if "/" in written:
        return written
    own = store.key(written)
    names = (name for name in store.spellings("models") if name.count("/") == 1)
    return next((name for name in names if store.key(name.split("/")[1]) == own), model.name)
