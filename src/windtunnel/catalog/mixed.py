"""From groups of unlike devices, as a scenario writes them, to a `MixedCluster`."""

from __future__ import annotations

from dataclasses import replace

from windtunnel import catalog
from windtunnel.catalog.resolution import PORTS, ports
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.cluster import ClusterSpec, MixedCluster, MixedClusterRef, ScaleOut


def resolve_mixed(ref: MixedClusterRef) -> MixedCluster:
    """Look up every group and the network between them.

    Raises:
        BadInput: everything wrong with any of them, at once.
    """
    problems: list[Problem] = []
    groups: list[ClusterSpec] = []
    assumed: list[tuple[str, str, str]] = []
    for i, entry in enumerate(ref.groups):
        field = f"cluster.groups.{i}"
        try:
            group = catalog.resolve_cluster(entry)
        except BadInput as error:
            for p in error.problems:
                rest = p.field.removeprefix("cluster").lstrip(".")
                problems.append(replace(p, field=f"{field}.{rest}" if rest and not isinstance(entry, str) else field))
            continue
        groups.append(group)
        assumed += [(f"{field}.{name.removeprefix('cluster.')}", value, why) for name, value, why in group.assumed]
    between = ref.between if isinstance(ref.between, ScaleOut) else None
    if isinstance(ref.between, str):
        try:
            between = _network(ref.between, assumed)
        except BadInput as error:
            problems += [replace(p, field="cluster.between") for p in error.problems]
    if problems:
        raise BadInput(problems)
    if between is None:
        assumed.append(("cluster.between", "the groups' own ports", "not given; the slowest group sets the pace"))
    first = {name: getattr(groups[0], name) for name in ClusterSpec.model_fields}
    return MixedCluster(
        **first
        | {
            "name": " + ".join(group.name for group in groups),
            "nodes": sum(group.nodes for group in groups),
            "groups": tuple(groups),
            "between": between,
            "assumed": tuple(assumed),
        }
    )


def _network(text: str, assumed: list[tuple[str, str, str]]) -> ScaleOut:
    """`ethernet-100g` or `2 x ethernet-25g`."""
    matched = PORTS.match(text)
    if matched:
        return ports(int(matched[1]), catalog.link(matched[2]))
    assumed.append(("cluster.between.nics_per_node", "1", "no number of ports given"))
    return ports(1, catalog.link(text))
