"""The few physical numbers behind collective times, per link family, each with its source and confidence.

Grades: `fact` (stated in a source), `fitted` (to the published rows named), `assumed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from windtunnel.data_files import read_yaml
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import Profile

PROTOCOLS = ("ll", "ll128", "simple")
"""NCCL's wire protocols: 8-byte flags (half of the rate), 128-byte lines (120/128), plain chunks with a semaphore."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFamily:
    """What a kind of link gives to collectives."""

    efficiency: float
    """Payload rate of a long ring or message over the data-sheet rate of one direction."""
    hop_s: tuple[float, float, float]
    """Latency of one dependent message under LL, LL128, Simple."""
    tau_s: float
    """Pipeline ramp: √(τ·transfer time) is added to the time (chunks, windows, protocol)."""
    channels: int
    """Thread blocks that a collective holds on a device."""
    switch_efficiency: float = 0.0
    """Rate of in-switch reduction over the data-sheet rate (0: none)."""
    switch_hop_s: float = 25e-6
    """Latency of one in-switch operation."""
    switch_tau_s: float = 15e-6
    """Pipeline ramp of in-switch operations (H100 all_reduce rows of apex_plus and dgxc-benchmarking; fitted)."""
    all_to_all_efficiency: float = 1.0
    """Further factor for all-to-all (many small peers)."""
    net_latency_s: float = 0.0
    """Latency that the network plugin reports on top of the hop (NCCL's table counts it twice under Simple)."""
    message_s: float = 1e-6
    """Posting one network message: every step of a ring between nodes takes at least that (NCCL's `netOverhead`)."""
    p2p_hop_s: float | None = None
    """Latency of the message of a pair; absent: a Simple hop."""
    exchange_hop_s: float | None = None
    """Latency of an all-to-all, beside what each message costs; absent: a Simple hop."""
    tree_hop_s: tuple[float, float, float] | None = None
    """Latency of a message of a tree between nodes; absent: as NCCL's table has it."""
    protocols: tuple[str, ...] = ("ll", "ll128", "simple")
    """Protocols that the transport supports."""
    believed: float | None = None
    """Payload rate that the library takes a port for, over the data-sheet rate; absent: `efficiency`."""
    amd_hosts: bool = False
    """Nodes on this network have AMD processors, for which NCCL's table has own rates of LL and costs of posting."""
    by_tensor: bool = False
    """Gradients cross it tensor by tensor, each through host memory; else a bucket or a layer goes as one."""
    source: str = ""


def _link_family(**known: Any) -> LinkFamily:
    return LinkFamily(**known | {key: tuple(value) for key, value in known.items() if isinstance(value, list)})


_KNOWN: dict[str, dict[str, Any]] = read_yaml("network/link_families.yaml")
SCALE_UP: Mapping[str, LinkFamily] = MappingProxyType({n: _link_family(**f) for n, f in _KNOWN["scale_up"].items()})
SCALE_OUT: Mapping[str, LinkFamily] = MappingProxyType({n: _link_family(**f) for n, f in _KNOWN["scale_out"].items()})
"""By family; a longer name (`pcie4`, `ici_v5p`) falls back to its longest known beginning."""


def family(table: Mapping[str, LinkFamily], name: str) -> LinkFamily:
    """Entry of the table for a family name, by its longest known beginning, else `generic`."""
    known = [key for key in table if name.startswith(key)]
    return table[max(known, key=len)] if known else table["generic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCoefficients:
    """Numbers of one cluster's networks. `for_cluster` fills them from the families; any may be replaced."""

    up: LinkFamily
    out: LinkFamily
    base_s: tuple[float, float, float] = (6.6e-6, 14e-6, 8.4e-6)
    """Kernel start of a collective under LL, LL128, Simple (NCCL tuner, ring; fact)."""
    put_base_s: float = 2.9e-6
    """Start of a kernel that puts and signals itself. With `put_hop_s` fitted to sums of 2 KiB to 1 MiB on 8 H200
    (MSCCL++ under CUDA graphs, sgl-project/sglang pull request 22734: ten rows, 6 % mean error), less the 1.8 µs by
    which NCCL in the same run exceeds its clock here."""
    put_hop_s: float = 1.1e-6
    """A put inside a domain with its flag in the data; twice that where the flag follows the data."""
    p2p_base_s: float = 5e-6
    """Kernel start of a send/receive pair (5 us for 2 KiB on H100, vidur h100_dgx rows; fitted)."""
    p2p_tau_s: float = 3e-6
    """Pipeline ramp of a single message (apex_plus H100/H200 send_recv rows; fitted)."""
    peer_s: float = 1.2e-6
    """Posting one more peer of an all-to-all (7, 10, 15 µs for 2, 4, 8 ranks on H100, apex_plus; fitted)."""
    torus_base_s: float = 11e-6
    """Start of a compiled collective on a torus (small all_gather rows of TPU7x, tpu-recipes; fitted)."""
    alpha_s: float = 0.0
    """Extra start skew of every collective (host launch, stragglers); 0 where the host is simulated."""
    leaf_domains: int = 16
    """Scale-up domains below one leaf switch, for oversubscription (assumed)."""
    scale_up_scale: float = 1.0
    scale_out_scale: float = 1.0
    """Factors on the efficiencies (calibration)."""
    partial_node_scale: float = 1.0
    """Factor on the NIC rate of groups with several, but not all, ranks of a node (calibration)."""
    most_channels: int | None = None
    """Thread blocks that a collective may hold (a plan's `collective_sms`); absent: as many as the library takes."""
    sources: Mapping[str, str] = field(default_factory=dict)

    def net_latency_s(self, cluster: ClusterSpec) -> float:
        """Latency of one network message beyond the hop latency, which holds 5 µs of wire and switches already."""
        return max(self.out.net_latency_s, cluster.scale_out.latency_s - 5e-6, 0.0)

    @classmethod
    def for_cluster(cls, cluster: ClusterSpec) -> NetworkCoefficients:
        """Defaults of the cluster's link families."""
        up = family(SCALE_UP, cluster.scale_up.family or cluster.scale_up.id)
        out = family(SCALE_OUT, cluster.scale_out.family)
        own = cls(up=up, out=out, sources={"scale_up": up.source, "scale_out": out.source})
        measured = cluster.device.profile
        return own if measured is None or not measured.network else own.measured(measured)

    def measured(self, profile: Profile) -> NetworkCoefficients:
        """With what was measured between the devices of the machine itself.

        Raises:
            BadInput: names that are no coefficients of a network.
        """
        plain = ("efficiency", "tau_s", "all_to_all_efficiency", "switch_efficiency")
        known = {*plain, "hop_s", "hop_scale", "base_s", "base_scale", "p2p_base_s", "p2p_tau_s", "channels"}
        values = {name: entry.value for name, entry in profile.network.items()}
        if wrong := sorted(set(values) - known):
            rule = f"is no coefficient of a network; known are {', '.join(sorted(known))}"
            raise BadInput(Problem(f"cluster.device.profile.network.{name}", rule) for name in wrong)
        changes: dict[str, Any] = {k: values[k] for k in plain if k in values}
        if "hop_s" in values:
            changes["hop_s"] = (values["hop_s"],) * 3
        elif "hop_scale" in values:
            changes["hop_s"] = tuple(values["hop_scale"] * hop for hop in self.up.hop_s)
        if "channels" in values:
            changes["channels"] = int(values["channels"])
        scale = values.get("base_scale", 1.0)
        base = self.base_s[0] * scale, self.base_s[1] * scale, self.base_s[2] * scale
        base = (values["base_s"],) * 3 if "base_s" in values else base
        up = replace(self.up, **changes, source="measured on the machine itself")
        start, ramp = values.get("p2p_base_s", self.p2p_base_s), values.get("p2p_tau_s", self.p2p_tau_s)
        return replace(self, up=up, base_s=base, p2p_base_s=start, p2p_tau_s=ramp)
