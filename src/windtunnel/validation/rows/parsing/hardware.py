"""The cluster of a row: device, nodes, networks."""

from __future__ import annotations

import re
from typing import Any

from windtunnel import catalog
from windtunnel.catalog.resolution import default_node
from windtunnel.specs.cluster import ClusterRef, ScaleOut
from windtunnel.specs.device import LinkSpec
from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.loose_values import count, first, words
from windtunnel.validation.rows.parsing.network import read_network
from windtunnel.validation.rows.parsing.pattern_tables import default, matches, table

_OWN_PORTS = ("gaudi",)
"""Devices whose own Ethernet ports leave the node and carry the collectives, next to the hosts' adapters."""


def read_hardware(ctx: Context) -> tuple[ClusterRef, int] | str:
    """The cluster reference and the number of devices, or why it cannot be determined."""
    hardware = ctx.hardware
    own, canonical = words(hardware.get("device")), words(hardware.get("device_canonical"))
    entry = _device(own, canonical)
    if entry is None:
        return f"device {hardware.get('device') or hardware.get('device_canonical')!r} is not in the catalogue"
    device, opening = entry
    if opening:
        ctx.assume("cluster.device", device, opening)
    total = count(first(hardware, "count", "num_gpus", "gpus", "devices", "n"))
    if total is None:
        total = _product(ctx.parallel)
        if total is None:
            return "the number of devices is not stated"
        ctx.assume("cluster.devices", total, "not stated; product of the parallel axes")
    cores = re.search(r"v(?:[234]|5p)-(\d+)\b", f"{own} {canonical}")
    if cores and int(cores.group(1)) == total and total % 2 == 0 and _product(ctx.parallel) != total:
        total //= 2
        ctx.assume("cluster.devices", total, f"{own} counts cores, two a chip")
    per_node = count(first(hardware, "per_node", "gpus_per_node"))
    if per_node is None:
        per_node = 4 if device.startswith(("gb", "tpu", "gh")) else 8
        per_node = min(per_node, total)
        if total > per_node:
            ctx.assume("cluster.devices_per_node", per_node, "not stated; usual node of this device")
    if device.startswith("trainium"):
        total, per_node = _chips_of_cores(ctx, device, total, per_node)
    fields: dict[str, Any] = {"device": device}
    if total <= per_node:
        per_node = total
    elif total % per_node:
        low = max(d for d in range(1, per_node + 1) if total % d == 0)
        ctx.assume("cluster.devices_per_node", low, f"{total} devices are not whole nodes of {per_node}")
        per_node = low
    nodes = total // per_node
    inside, outside = words(hardware.get("intra_node")), words(hardware.get("inter_node"))
    domain = _domain(ctx, device, inside, outside, total)
    if domain and domain > per_node:
        fields["scale_up_domain"] = domain
    if nodes > 1 and (domain or per_node) < total:
        network = None
        if not (device.startswith(_OWN_PORTS) and matches(table("network")["host_adapter"], outside)):
            network = read_network(hardware.get("inter_node"), per_node)
        if network is not None:
            fields["scale_out"] = network
        if network is None or matches(table("hardware")["unsure"], outside):
            shown = _show(network) if network else "the device's usual node"
            why = "network between nodes not stated by the source"
            ctx.assume("cluster.scale_out", shown, why, leaves_open="network")
    link = _without_switch_reduction(ctx, device)
    if link is not None:
        fields["scale_up"] = link
    watts = re.search(r"(\d{3,4})\s*w\b", own)
    if watts and device != "h100-sxm-96gb":
        fields["power_cap_w"] = float(watts.group(1))
    elif watts is None and (rule := default("power_cap_w", ctx, device=device, words=own)):
        fields["power_cap_w"] = float(rule[0])
        ctx.assume("cluster.power_cap_w", *rule)
    return ClusterRef(nodes=nodes, devices_per_node=per_node, **fields), total


def _chips_of_cores(ctx: Context, device: str, total: int, per_node: int) -> tuple[int, int]:
    """Chips, where a row or its axes count NeuronCores: cores of a chip are one device of the tensor or data axis."""
    node = default_node(catalog.device(device))
    usual = node.devices_per_node if node else per_node
    listed = per_node // usual if per_node > usual and per_node % usual == 0 else 1
    product = _product(ctx.parallel) or total
    cores = listed if listed > 1 else product // total if product > total and product % total == 0 else 1
    if cores not in (2, 4, 8):
        return total, per_node
    tp, dp, batch = (
        count(ctx.parallel.get("tp")) or 1,
        count(ctx.parallel.get("dp")),
        count(ctx.fields["micro_batch"]),
    )
    if tp % cores == 0:
        ctx.parallel = {**ctx.parallel, "tp": tp // cores}
    else:
        ctx.parallel = {**ctx.parallel, "dp": dp // cores if dp else None}
        ctx.fields = {**ctx.fields, "micro_batch": batch * cores if batch else None}
    if listed > 1:
        total, per_node = total // cores, usual
    ctx.assume("cluster.devices", total, f"cores are counted, {cores} a chip")
    return total, per_node


def _without_switch_reduction(ctx: Context, device: str) -> LinkSpec | None:
    """The device's own link with NVLS off, where the run's environment says so."""
    text = words(first(ctx.extra, "nvls", "nccl_nvls_enable", "NCCL_NVLS_ENABLE"))
    if not re.search(r"=\s*0\b|^0$|\boff\b|false|disabled", text):
        return None
    name = catalog.device(device).scale_up
    link = catalog.link(name) if name else None
    if link is None or not link.in_network_reduction:
        return None
    return link.model_copy(update={"in_network_reduction": False})


def canonical_device(text: object, canonical: object = None) -> str | None:
    """Catalogue id of a device by its words, or `None`."""
    entry = _device(words(text), words(canonical))
    return entry[0] if entry else None


def _device(own: str, canonical: str) -> tuple[str, str | None] | None:
    for text in (_without_marks(own), _without_marks(canonical)):
        for pattern, device, opening in table("hardware")["devices"]:
            if text and matches(pattern, text):
                return device, opening
    return None


def _without_marks(text: str) -> str:
    """A device's words without trademark signs: `Intel(R) Gaudi(R) 2`."""
    return " ".join(re.sub(r"\((?:r|tm|c)\)|[®™©]", " ", text).split())


def _product(parallel: dict[str, Any]) -> int | None:
    dp = count(parallel.get("dp"))
    if dp is None:
        return None
    inner = [count(parallel.get(axis)) or 1 for axis in ("tp", "pp", "cp")]
    return dp * inner[0] * inner[1] * inner[2]


def _domain(ctx: Context, device: str, inside: str, outside: str, total: int) -> int | None:
    """Devices behind one scale-up network when that is more than a node."""
    if device.startswith("tpu"):
        slices = count(ctx.extra.get("slices"))
        if slices is None:
            found = re.search(r"(\d+)\s*slices?", outside)
            slices = int(found.group(1)) if found else 1
        chips = count(ctx.extra.get("chips_per_slice"))
        return min(chips or max(total // max(slices, 1), 1), total)
    size = re.search(r"nvl\s*-?(\d+)", f"{inside} {outside}")
    rack = int(size.group(1)) if size else (72 if device in ("gb200", "gb300") else None)
    if rack is None or rack >= total:
        return total if rack else None
    # jobs take equal parts of each rack, so that groups of ranks do not straddle two
    return max(d for d in range(1, rack + 1) if total % d == 0)


def _show(network: ScaleOut) -> str:
    return f"{network.nics_per_node} x {network.nic_bytes_per_s * 8e-9:g} Gb/s {network.family}"
