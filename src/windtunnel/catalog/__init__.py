"""Devices, links, clusters and models by name: data files with a source and a date behind every number.

Everything is read on first use, one small YAML file an entry, and kept. Lookups accept ids, aliases and spellings that
differ in case, punctuation, vendor words or release suffixes; an unknown name raises `BadInput` with the nearest ones.

Example:
    >>> from windtunnel import catalog
    >>> catalog.device("H100 SXM").id
    'h100-sxm-80gb'
    >>> catalog.model("llama-3.1-70b").hidden_size
    8192
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from windtunnel.catalog import store
from windtunnel.errors import BadInput
from windtunnel.specs.cluster import ClusterRef, ClusterSpec, MixedClusterRef
from windtunnel.specs.device import DeviceSpec, LinkSpec
from windtunnel.specs.model import ModelSpec

if TYPE_CHECKING:
    from windtunnel.errors import Problem

__all__ = [
    "check",
    "cluster",
    "clusters",
    "device",
    "devices",
    "link",
    "links",
    "model",
    "models",
    "resolve_cluster",
]

_TIMES = re.compile(r"^\s*(?:(\d+)\s*[x×*]\s*(?=[A-Za-z]))?(.+?)(?:\s*[x×*:]\s*(\d+))?\s*$")


def devices() -> list[str]:
    """Ids of all devices, sorted."""
    return list(store.ids("devices"))


def links() -> list[str]:
    """Ids of all links, sorted."""
    return list(store.ids("links"))


def clusters() -> list[str]:
    """Ids of all clusters and node types, sorted."""
    return list(store.ids("clusters"))


def models() -> list[str]:
    """Names of all models, sorted."""
    return sorted(name for name, _ in store.headings("models").values())


def device(id: str) -> DeviceSpec:
    """A device by id or any known spelling.

    Raises:
        BadInput: no such device; names the nearest ones.
    """
    return _device(store.find("devices", id))


def link(id: str) -> LinkSpec:
    """A link (scale-up fabric or scale-out port) by id or any known spelling.

    Raises:
        BadInput: no such link; names the nearest ones.
    """
    return _link(store.find("links", id))


def model(name: str) -> ModelSpec:
    """A model by Hugging Face name, with or without its organisation, or any known spelling.

    Raises:
        BadInput: no such model; names the nearest ones.
    """
    return _model(store.find("models", name))


def cluster(name: str) -> ClusterSpec:
    """A cluster by name; a count makes several of a node type: `8 x dgx-h100`, `dgx-h100 x8`, `dgx-h100:8`.

    Raises:
        BadInput: no such cluster; names the nearest ones.
    """
    try:
        return _cluster(store.find("clusters", name))
    except BadInput:
        matched = _TIMES.match(name) if len(name) <= store.MOST_OF_A_NAME else None
        count = matched and (matched[1] or matched[3])
        if not matched or not count or int(count) < 1:
            raise
        one = _cluster(store.find("clusters", matched[2]))
        if one.nodes != 1:
            raise
        return one.model_copy(update={"name": f"{count} x {one.name}", "nodes": int(count)})


def resolve_cluster(ref: str | ClusterRef | MixedClusterRef) -> ClusterSpec:
    """The cluster that a scenario means, everything looked up and filled in.

    What the reference leaves open comes from the device's usual node type (network, host memory, price) and is listed
    in `ClusterSpec.assumed`.

    Raises:
        BadInput: an unknown device, link or cluster, or a scale-up domain that nodes do not divide.
    """
    if isinstance(ref, str):
        return cluster(ref)
    if isinstance(ref, MixedClusterRef):
        from windtunnel.catalog.mixed import resolve_mixed

        return resolve_mixed(ref)
    from windtunnel.catalog.resolution import resolve

    return resolve(ref)


def check() -> list[Problem]:
    """Everything wrong with the catalogue itself (empty when it is sound); behind `windtunnel catalog check`."""
    from windtunnel.catalog.soundness import check_all

    return check_all()


@cache
def _device(stem: str) -> DeviceSpec:
    data = store.read("devices", stem)
    data["sources"] = store.sources(data)
    data.pop("default_node", None)
    return DeviceSpec.model_validate(data)


@cache
def _link(stem: str) -> LinkSpec:
    data = store.read("links", stem)
    data["sources"] = store.sources(data)
    return LinkSpec.model_validate(data)


@cache
def _model(stem: str) -> ModelSpec:
    data = store.read("models", stem)
    data.pop("aliases", None)
    data.pop("formats", None)
    return ModelSpec.model_validate(data)


@cache
def _cluster(stem: str) -> ClusterSpec:
    from windtunnel.catalog.resolution import from_file

    return from_file(stem)
