"""From a cluster file, or from what a scenario writes under `cluster:`, to a complete `ClusterSpec`."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

from windtunnel import catalog
from windtunnel.catalog import store
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.cluster import ClusterRef, ClusterSpec, ScaleOut, Storage
from windtunnel.specs.device import DeviceSpec, LinkSpec

PORTS = re.compile(r"^\s*(\d+)\s*[x×*]\s*(\D.*)$")
"""`4 x infiniband-hdr`: ports of a node."""

FALLBACK_NODE = "pcie5-server"
"""Node type whose network stands in for devices that name none, such as those written out in a scenario."""


NODE_MEMORY = (
    "host_memory_bytes",
    "host_memory_bytes_per_s",
    "host_cores",
    "devices_per_host_link",
    "storage",
    "cxl",
)
"""What a node offers tensors that leave a device."""


def ports(nics_per_node: int, port: LinkSpec, **fields: Any) -> ScaleOut:
    """A scale-out network of equal ports of one link type."""
    return ScaleOut(
        nics_per_node=nics_per_node,
        nic_bytes_per_s=port.bytes_per_s,
        **{"latency_s": port.latency_s, "family": port.family, **fields},
    )


def from_file(stem: str) -> ClusterSpec:
    """A cluster of the catalogue. Fields that the file leaves out follow the device."""
    data = store.read("clusters", stem)
    device = catalog.device(data["device"])
    network = dict(data["scale_out"])
    up = catalog.link(data.get("scale_up") or device.scale_up or "pcie4")
    return ClusterSpec.model_validate(
        {
            "name": data.get("id", stem),
            "device": device,
            "nodes": data["nodes"],
            "devices_per_node": data["devices_per_node"],
            "scale_up": up,
            "scale_out": ports(network.pop("nics_per_node"), catalog.link(network.pop("link")), **network),
            "scale_up_domain": data.get("scale_up_domain", data["devices_per_node"]),
            "price_per_device_hour": data.get("price_per_device_hour", device.price_per_hour),
            **{k: data[k] for k in (*NODE_MEMORY, "power_cap_w") if k in data},
        }
    )


def default_node(device: DeviceSpec) -> ClusterSpec | None:
    """The node type that a device is usually sold in, where its file names one."""
    if device.id not in store.ids("devices"):
        return None
    node = _default_node_of(device.id)
    return catalog.cluster(node) if node else None


@cache
def _default_node_of(stem: str) -> str | None:
    """Name of the node type in a device's file, which is read once."""
    node: str | None = store.read("devices", stem).get("default_node")
    return node


def resolve(ref: ClusterRef) -> ClusterSpec:
    """Fill in a scenario's cluster; see `windtunnel.catalog.resolve_cluster`."""
    assumed: list[tuple[str, str, str]] = []
    problems: list[Problem] = []

    def attempt(lookup: Any, value: str, field: str) -> Any:
        try:
            return lookup(value)
        except BadInput as error:
            problems.extend(replace(p, field=f"cluster.{field}") for p in error.problems)
            return None

    if ref.device == "any":
        rule = "stands for every priced device of the catalogue in `plan`; everything else takes one device"
        raise BadInput(Problem("cluster.device", rule, "any"))
    device = ref.device if isinstance(ref.device, DeviceSpec) else attempt(catalog.device, ref.device, "device")
    up: LinkSpec | None = ref.scale_up if isinstance(ref.scale_up, LinkSpec) else None
    if isinstance(ref.scale_up, str):
        up = attempt(catalog.link, ref.scale_up, "scale_up")
    out: ScaleOut | None = ref.scale_out if isinstance(ref.scale_out, ScaleOut) else None
    if isinstance(ref.scale_out, str):
        out = attempt(lambda text: _scale_out(text, ref, assumed), ref.scale_out, "scale_out")
    if problems:
        raise BadInput(problems)
    assert isinstance(device, DeviceSpec)

    changes = {
        name: value
        for name, value in (("memory_bytes", ref.memory_bytes), ("memory_bytes_per_s", ref.memory_bytes_per_s))
        if value is not None
    }
    node = default_node(device)
    if changes:
        device = device.model_copy(update=changes)
    if up is None:
        up = catalog.link(device.scale_up or "pcie4")
        if not device.scale_up:
            assumed.append(("cluster.scale_up", up.id, f"{device.id} names no link of its own"))
    if out is None:
        out = _default_scale_out(ref, device, up, node, assumed)
    domain = ref.scale_up_domain
    if domain is None:
        domain = ref.devices_per_node
        if node is not None and node.scale_up_domain > node.devices_per_node and node.scale_up.id == up.id:
            whole_nodes = max(1, node.scale_up_domain // ref.devices_per_node)
            domain = min(whole_nodes, ref.nodes) * ref.devices_per_node
            assumed.append(("cluster.scale_up_domain", str(domain), f"as in {node.name}"))
    elif max(domain, ref.devices_per_node) % min(domain, ref.devices_per_node):
        rule = f"must be a multiple or a divisor of devices_per_node {ref.devices_per_node}"
        raise BadInput(Problem(field="cluster.scale_up_domain", value=domain, rule=rule))
    host = ref.host_memory_bytes
    if host is None:
        host = node.host_memory_bytes * ref.devices_per_node / node.devices_per_node if node else 1e12
        assumed.append(
            ("cluster.host_memory_bytes", f"{host:.4g}", f"share of {node.name}" if node else "no usual node type")
        )
    found = ClusterSpec(
        name=f"{ref.nodes} x {ref.devices_per_node} {device.id}",
        device=device,
        nodes=ref.nodes,
        devices_per_node=ref.devices_per_node,
        scale_up=up,
        scale_out=out,
        scale_up_domain=domain,
        host_memory_bytes=host,
        **_host(ref, node),
        power_cap_w=ref.power_cap_w,
        clock_share=ref.clock_share,
        price_per_device_hour=ref.price_per_device_hour
        if ref.price_per_device_hour is not None
        else device.price_per_hour,
        assumed=tuple(assumed),
    )
    if wrong := found.fabric_problems:
        raise BadInput(wrong)
    return found


def _host(ref: ClusterRef, node: ClusterSpec | None) -> dict[str, Any]:
    """Rates of host memory, drives and cards: as given, else the devices' share of the usual node's."""
    out: dict[str, Any] = {name: getattr(ref, name) for name in NODE_MEMORY[1:]}
    if node is not None:
        share = ref.devices_per_node / node.devices_per_node
        if out["host_memory_bytes_per_s"] is None and node.host_memory_bytes_per_s is not None:
            out["host_memory_bytes_per_s"] = node.host_memory_bytes_per_s * share
        if out["host_cores"] is None and node.host_cores is not None:
            out["host_cores"] = max(1, round(node.host_cores * share))
        if out["devices_per_host_link"] is None:
            out["devices_per_host_link"] = min(node.devices_per_host_link, ref.devices_per_node)
        if out["storage"] is None and node.storage is not None:
            out["storage"] = Storage(**{k: v * share for k, v in node.storage.model_dump().items()})
        out["cxl"] = out["cxl"] or node.cxl
    return {name: value for name, value in out.items() if value is not None}


def _scale_out(text: str, ref: ClusterRef, assumed: list[tuple[str, str, str]]) -> ScaleOut:
    """`infiniband-ndr` or `4 x infiniband-hdr`."""
    matched = PORTS.match(text)
    port = catalog.link(matched[2] if matched else text)
    if matched:
        return ports(int(matched[1]), port)
    assumed.append(("cluster.scale_out.nics_per_node", str(ref.devices_per_node), "one port per device"))
    return ports(ref.devices_per_node, port)


def _default_scale_out(
    ref: ClusterRef,
    device: DeviceSpec,
    up: LinkSpec,
    node: ClusterSpec | None,
    assumed: list[tuple[str, str, str]],
) -> ScaleOut:
    """The usual network of the device's node type, scaled to the devices of a node."""
    why = f"{device.id} is usually sold in it"
    if node is None:
        node = catalog.cluster(FALLBACK_NODE)
        why = f"{device.id} has no usual node type"
    nics = max(1, round(node.scale_out.nics_per_node * ref.devices_per_node / node.devices_per_node))
    out = node.scale_out.model_copy(update={"nics_per_node": nics})
    if ref.nodes > 1:
        value = f"{nics} x {out.nic_bytes_per_s * 8 / 1e9:g} Gb/s {out.family}, {out.topology}"
        assumed.append(("cluster.scale_out", value, f"as in {node.name}: {why}"))
    return out
