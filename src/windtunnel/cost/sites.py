"""Coefficients that describe the place of a measurement, its wiring, hosts and network, not the software that ran.

An entry of a coefficient file that names a `site` (a cluster of the catalogue) holds on clusters of that site's nodes
alone; on every other cluster the value below it stands, which for factors is 1. What a fit says of the network between
nodes holds on the families of networks that its rows ran on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from windtunnel import catalog
from windtunnel.cost.coefficient_files import coefficient_file, coefficient_layers, fit_of, levels_of
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.stacks.stack_files import lineage

SITE_COEFFICIENTS = frozenset({"partial_node_scale", "multi_node_host", "multi_node_skew"})
"""Coefficients that a fit measures for its site: how devices of a node share its NICs (switches, sockets, rails), and
what a job over several nodes costs its hosts and lets its ranks drift apart (daemons, file systems, launchers)."""
FABRIC_COEFFICIENTS = frozenset({"scale_out_scale"})
"""Coefficients that say how far one family of networks between nodes falls short of its model: a fit's value does not
travel to another family. Rates of kernels belong to software and device, and travel."""

GENERATION_COEFFICIENTS = frozenset({"board_j_per_flop", "reference_limit", "scale_up_scale"})
"""Coefficients of one generation's silicon and links, which do not stand in for another's."""


def holds_at(entry: Any, site: str) -> bool:
    """Whether an entry of a coefficient file holds at a site; entries without one hold everywhere."""
    return not isinstance(entry, dict) or entry.get("site") in (None, site)


def site_of(framework: str, cluster: ClusterSpec | None) -> str:
    """The site whose nodes a cluster has, among those that the framework's coefficients name; empty: none of them.

    Nodes are alike where device, devices and ports of a node, rate and family of the ports agree.
    """
    if cluster is None:
        return ""
    device = cluster.device
    named = _sites(framework, device.kind, device.generation, device.id)
    return next((site for site in named if _nodes(catalog.cluster(site)) == _nodes(cluster)), "")


@cache
def _sites(framework: str, kind: str, generation: str, device_id: str) -> tuple[str, ...]:
    levels = levels_of(kind, generation, device_id)
    found: dict[str, None] = {}
    for data in (coefficient_file(f"fitted/{name}") for name in lineage(framework)[:2]):
        for level in ("default", *levels):
            entries = (data.get("coefficients") or {}).get(level) or {}
            found |= {e["site"]: None for e in entries.values() if isinstance(e, dict) and e.get("site")}
    return tuple(found)


def fabric_of(cluster: ClusterSpec | None) -> str:
    """Family of the network between nodes (infiniband, roce …); empty where no communication needs it."""
    if cluster is None or cluster.num_devices <= max(cluster.scale_up_domain or 0, cluster.devices_per_node):
        return ""
    return cluster.scale_out.family


def _nodes(cluster: ClusterSpec) -> tuple[str, int, int, float, str]:
    ports = cluster.scale_out
    return (
        cluster.device.id,
        cluster.devices_per_node,
        ports.nics_per_node,
        round(ports.nic_bytes_per_s),
        ports.family,
    )


@dataclass(frozen=True, slots=True)
class Where:
    """The place of a run, as far as coefficients depend on it."""

    site: str
    """Cluster of the catalogue whose own factors hold, empty for none."""
    fabric: str
    """`fabric_of` the cluster."""


ANYWHERE = Where("", "")
"""A run that needs no network between nodes, at no site in particular."""


def where_of(framework: str, cluster: ClusterSpec | None) -> Where:
    """The place of a cluster for a framework's coefficients."""
    return Where(site_of(framework, cluster), fabric_of(cluster))


def held(
    section: dict[str, Any], where: Where, fabrics: Collection[str] | None = None
) -> tuple[dict[str, Any], frozenset[str]]:
    """Entries of a section that hold for a run, and the names of those that hold elsewhere alone.

    Args:
        section: coefficient → number, or record that may name a site.
        where: site and fabric of the run.
        fabrics: of a fit: families of networks that its rows ran on; what it says of networks holds on these alone.
    """
    away = {name for name, entry in section.items() if not holds_at(entry, where.site)}
    if fabrics is not None and where.fabric and where.fabric not in fabrics:
        away |= FABRIC_COEFFICIENTS & set(section)
    return {name: entry for name, entry in section.items() if name not in away}, frozenset(away)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSection:
    """One level of one coefficient file that holds for a run."""

    level: str
    """default, or kind, generation or catalogue id of the device."""
    file: str
    """Name that the file states."""
    entries: dict[str, Any]
    away: frozenset[str]
    """Names of entries that hold at another site, or on another fabric, alone."""
    fitted: bool
    inherited: bool
    """Whether it is another generation's, which stands in for the device's own."""


def applied_sections(
    framework: str, levels: tuple[str, str, str], where: Where, *, fits: bool = True, unseen: bool = False
) -> Iterator[AppliedSection]:
    """Sections of coefficient files that hold for a run, in the order in which they are laid over each other.

    Args:
        framework: software generation.
        levels: kind, generation and catalogue id of the device; any may be empty. Generations that stand in for this
            one come below it (`catalog/coefficients/generations.yaml`).
        where: site and fabric of the cluster.
        fits: whether fitted values count.
        unseen: whether the framework's own starting values are left out too, as if nobody had measured it.
    """
    expanded = levels_of(*levels)
    fit = fit_of(framework, expanded) if fits else {}
    plain = [data for owner, data in coefficient_layers(framework) if not (unseen and owner == framework)]
    for level in ("default", *expanded):
        inherited = level not in ("default", *levels)
        for data in (*plain, fit):
            if not (section := (data.get("coefficients") or {}).get(level)):
                continue
            if inherited:
                section = {name: entry for name, entry in section.items() if name not in GENERATION_COEFFICIENTS}
            fitted = data is fit
            entries, away = held(section, where, data.get("fabrics", {}).get(level, ()) if fitted else None)
            yield AppliedSection(
                level=level,
                file=str(data.get("name", framework)),
                entries=entries,
                away=away,
                fitted=fitted,
                inherited=inherited,
            )
