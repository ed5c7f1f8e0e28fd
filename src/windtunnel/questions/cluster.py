"""The cluster that a question names: which device, how many, in which nodes."""

from __future__ import annotations

import re
from typing import Any

from windtunnel import catalog
from windtunnel.catalog.resolution import default_node
from windtunnel.errors import BadInput, Problem
from windtunnel.quantities import gib
from windtunnel.questions.builder import LOADS, Builder, whole
from windtunnel.questions.reading import Reading

_FORM = re.compile(r"-(?:sxm|pcie|nvl)\b")
A_SITE_W = 2500.0
"""A limit above this many watts is one of all devices: no device of the catalogue draws as much."""


def cluster_of(build: Builder) -> tuple[dict[str, Any], int | None]:
    """The cluster of a scenario, and its devices where they were said."""
    reading = build.reading
    extra: dict[str, Any] = {}
    cap = reading.get("cap")
    if cap is not None and cap <= A_SITE_W:
        extra["power_cap_w"] = cap
    if "price" in reading:
        extra["price_per_device_hour"] = reading.get("price")
    count, nodes, per_node = (whole(reading.get(name)) for name in ("count", "nodes", "pernode"))
    if "eachcount" in reading:
        count = whole(reading.get("eachcount") * reading.get("replicas", 1))
    if "cluster" in reading:
        one = catalog.cluster(reading.get("cluster"))
        device, per_node, nodes = one.device.id, one.devices_per_node, (nodes or 1) * one.nodes
    elif "device" in reading:
        device = device_of(reading)
    else:
        count = build.given("count", "cluster.devices", 8)
        return {"device": "any", "nodes": 1, "devices_per_node": count, **extra}, count
    if "portbits" in reading:
        extra["scale_out"] = _ports(reading, device)
    usual = default_node(catalog.device(device))
    usual_size = usual.devices_per_node if usual is not None else 8
    if nodes is not None:
        if count is not None and count != nodes * (per_node or usual_size):
            if per_node is not None or count % nodes:
                rule = f"is not {nodes} × {per_node or usual_size}, the devices of all nodes"
                raise BadInput(Problem("", rule, reading.text("count")))
            per_node = count // nodes
        per_node = per_node or usual_size
        count = nodes * per_node
    elif per_node is not None:
        if count is None or count % per_node:
            raise BadInput(f"how many nodes of {per_node} devices? say for example `2 nodes of {per_node} h100`")
        nodes = count // per_node
    else:
        per_node = usual_size
        if count is None and reading.get("best") != "devices":
            count = _unsaid_count(build, device, usual_size)
        if count is not None:
            per_node = max(n for n in range(1, usual_size + 1) if count % n == 0)
            nodes = count // per_node
    return {"device": device, "nodes": nodes or 1, "devices_per_node": per_node, **extra}, count


def device_of(reading: Reading) -> str:
    """Id of the device; of several of one name, the one with the memory that was said.

    Raises:
        BadInput: no device of that name has this memory.
    """
    named = catalog.device(reading.get("device"))
    said = reading.get("devicememory")
    if said is None or _near(said, named.memory_bytes):
        return named.id
    like = [one for one in catalog.devices() if _family(one) == _family(named.id)]
    fitting = [one for one in like if _near(said, catalog.device(one).memory_bytes)]
    if fitting:
        form = _FORM.findall(named.id)
        return next((one for one in fitting if _FORM.findall(one) == form), fitting[0])  # a card stays a card
    rule = f"is not the memory of {named.id}, {gib(named.memory_bytes)}"
    raise BadInput(Problem("", rule, reading.text("devicememory")))


def _family(device: str) -> str:
    """The id of a device without its form and its memory: `v100` of `v100-sxm-32gb`."""
    return re.sub(r"-\d+gb$", "", _FORM.sub("", device))


def _near(said: float, memory: float) -> bool:
    """Whether a size in the words of a data sheet, GB or GiB, is this memory."""
    return bool(0.9 * said <= memory <= 1.12 * said)


def _ports(reading: Reading, device: str) -> dict[str, Any]:
    """Network ports of a node at the rate that was said."""
    usual = default_node(catalog.device(device))
    ports = usual.scale_out.nics_per_node if usual is not None else 1
    return {"nics_per_node": ports, "nic_bytes_per_s": reading.get("portbits") / 8}


def _unsaid_count(build: Builder, device: str, node: int) -> int | None:
    """Devices where no number was said: one for `on an h100`, a node for `on h100s`; None: the fewest that do."""
    cut = 1
    for name in ("tp", "pp", "cp", "dp"):
        cut *= whole(build.reading.get(name, 1))
    if cut > 1:
        build.assumed.append(("cluster.devices", cut, "what the axes take"))
        return cut
    if "single" in build.reading and "compare" not in build.reading and "versus" not in build.reading:
        build.assumed.append(("cluster.devices", 1, "not said"))
        return 1
    if build.task == "serve" and any(name in build.reading for name in LOADS):
        return None
    build.assumed.append(("cluster.devices", node, f"not said; one node of {device}"))
    return node
