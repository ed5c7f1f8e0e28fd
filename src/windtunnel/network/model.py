"""The network model: time and work of a collective on a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats, Mask
from windtunnel.network import clock, collectives, fabric, nccl
from windtunnel.network.algorithm_choice import ALGORITHM_RATE, OVER, PROTOCOL_RATE, choices
from windtunnel.network.coefficients import PROTOCOLS, NetworkCoefficients
from windtunnel.network.collectives.all_to_all import EVEN, AllToAllLoad, all_to_all_traffic
from windtunnel.network.collectives.base import OPS, Traffic
from windtunnel.network.groups import GroupPlacement
from windtunnel.network.result import CollectiveTime
from windtunnel.specs.cluster import ClusterSpec

_MEMO = 65_536
"""Answers kept per model; a program asks for few distinct collectives many times."""
_LONGEST = 600
"""Numbers of a question that is remembered: virtual stages of a pipeline, not the plans of a screen."""


VENDOR_LIBRARY = {"nvidia": "nccl", "amd": "rccl", "intel": "oneccl", "huawei": "hccl"}
"""Communication library by vendor of the device."""
OWN_CLOCK = ("oneccl", "hccl", "generic")
"""Libraries whose choice of algorithm is not published: the fastest by our own clock."""


class NetworkModel:
    """Times of collectives on one cluster. Every argument may be an array; answers to short ones are remembered.

    Example: `NetworkModel(cluster).collective("all_reduce", 64e6, mesh.placement("dp")).alone_s`.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        params: NetworkCoefficients | None = None,
        named: Iterable[tuple[str, str]] = (),
        software: str | None = None,
    ) -> None:
        """A model of one cluster's networks.

        Args:
            cluster: devices and links.
            params: coefficients; absent: the cluster's own.
            named: (`AXIS.OPERATION`, algorithm) where the library's own choice is not taken; AXIS `all`: every group.
            software: library that chooses; absent: the vendor's.
        """
        self.cluster = cluster
        self.named = dict(named)
        self.software = software
        self.params = params or NetworkCoefficients.for_cluster(cluster)
        self._memo: dict[tuple[object, ...], CollectiveTime] = {}

    @property
    def library(self) -> str:
        """The communication library that the cluster's vendor ships."""
        if self.cluster.scale_up.family == "gloo":
            return "gloo"
        by_link = "nccl" if self.cluster.scale_up.family.startswith("nvlink") else "generic"
        return VENDOR_LIBRARY.get(self.cluster.device.vendor.lower(), by_link)

    def collective(
        self,
        op: str,
        nbytes: npt.ArrayLike,
        place: GroupPlacement,
        *,
        axis: str = "all",
        algorithm: str | None = None,
        protocol: str | None = None,
        software: str | None = None,
        load: AllToAllLoad = EVEN,
    ) -> CollectiveTime:
        """Time and work of one collective (or of arrays of them).

        Args:
            op: all_reduce, reduce_scatter, all_gather, all_to_all, broadcast or send_recv.
            nbytes: Whole tensor (see `collectives.base` for the convention).
            place: Where the group sits.
            axis: What the group is for (tp, cp, ep, dp …); decides with `op` about algorithms that a plan names.
            algorithm: Id of an algorithm; absent: what the software would choose.
            protocol: ll, ll128 or simple; absent: the software's choice.
            software: A key of `selector.SELECTORS`: nccl, nccl_nvls_off, nccl_2.18, nccl_2.12, rccl, generic, mscclpp,
                nvrar …; absent: the vendor's own library. Libraries without a published tuner take what is fastest by
                our clock.
            load: Imbalance, de-duplication and path of an all_to_all; other operations do not read it.

        Raises:
            ValueError: unknown operation, algorithm or protocol.
        """
        if op not in OPS:
            raise ValueError(f"op = {op}: one of {', '.join(OPS)}")
        software = software or self.software or self.library
        if algorithm is None and self.named:
            algorithm = self.named.get(f"{axis}.{op}", self.named.get(f"all.{op}"))
        sizes = (nbytes, load.imbalance, load.unique_out_fraction)
        fields = (place.size, place.ranks_per_domain, place.num_domains, place.groups_per_domain, place.stride)
        several = [np.asarray(a, np.float64) for a in (*sizes, *fields, place.torus_axes, place.torus_hops)]
        if sum(a.size for a in several) > _LONGEST:
            return self._collective(op, nbytes, place, algorithm, protocol, software, load)
        numbers = [float(a) if a.ndim == 0 else (a.shape, a.tobytes()) for a in several]
        key = (op, algorithm, protocol, software, load.two_level, *numbers)
        if key not in self._memo:
            if len(self._memo) >= _MEMO:
                self._memo.clear()
            self._memo[key] = self._collective(op, nbytes, place, algorithm, protocol, software, load)
        return self._memo[key]

    def _collective(
        self,
        op: str,
        nbytes: npt.ArrayLike,
        place: GroupPlacement,
        algorithm: str | None,
        protocol: str | None,
        software: str,
        load: AllToAllLoad,
    ) -> CollectiveTime:
        size = np.asarray(nbytes, dtype=np.float64)
        rate = clock.rates(self.cluster, place, self.params)
        thin = clock.oversubscription(self.cluster, place, op, self.params.leaf_domains)
        torus = self.cluster.scale_up.topology == "torus"
        if op == "all_to_all" and torus:
            size = np.asarray(size * np.asarray(load.imbalance, dtype=np.float64))
        if op == "all_to_all" and algorithm in (None, "all_to_all") and not torus:
            traffic = all_to_all_traffic(size, place, load)
            rate = replace(rate, up=rate.up * self.params.up.all_to_all_efficiency)
            return self._time(op, traffic, rate, thin, "simple", "all_to_all", place)
        if op == "send_recv" and algorithm is None:
            if self.cluster.scale_up.flow_bytes_per_s is not None:
                up = np.minimum(rate.up, self.cluster.scale_up.flow_bytes_per_s)
                rate = replace(rate, up=np.asarray(up))
            return self._time(
                op, collectives.get("send_recv").traffic(op, size, place), rate, thin, "simple", "send_recv", place
            )
        if algorithm is not None:
            chosen = collectives.get(algorithm)
            if op not in chosen.ops:
                raise ValueError(f"algorithm = {algorithm}: does {', '.join(sorted(chosen.ops))}, not {op}")
            self._check_hardware(algorithm)
            traffic = chosen.traffic(op, size, place)
            plain = traffic.in_network or traffic.host is not None
            names = (protocol,) if protocol else (("simple",) if plain else PROTOCOLS)
            return self._best([self._time(op, traffic, rate, thin, p, algorithm, place) for p in names])
        if software in OVER and not torus:
            below = self._collective(op, nbytes, place, None, protocol, self.library, load)
            return self._best([below, *self._added(op, size, place, rate, thin, software)])
        if software in OWN_CLOCK and not torus:
            return self._best(
                [
                    self._time(op, collectives.get(name).traffic(op, size, place), rate, thin, p, name, place)
                    for name in ("ring", "tree")
                    if op in collectives.get(name).ops
                    for p in ("ll", "simple")
                ]
            )
        picks = choices(op, size, place, self.cluster, self.params, software)
        times = [
            self._time(op, collectives.get(name).traffic(op, size, place), rate, thin, proto, name, place)
            for name, proto, _ in picks
        ]
        return times[0] if len(times) == 1 else self._select(times, [mask for _, _, mask in picks])

    def _added(
        self, op: str, size: Floats, place: GroupPlacement, rate: clock.Rates, thin: Floats, software: str
    ) -> list[CollectiveTime]:
        """Times of the algorithms that a library adds to the vendor's; those for several nodes take forever on one."""
        out = []
        for name in OVER[software]:
            chosen = collectives.get(name)
            if op not in chosen.ops or (name == "put_switch" and not self.cluster.scale_up.in_network_reduction):
                continue
            traffic = chosen.traffic(op, size, place)
            for protocol in ("simple",) if traffic.in_network else ("ll", "simple"):
                one = self._time(op, traffic, rate, thin, protocol, name, place)
                if name == "nvrar":
                    one = replace(one, alone_s=np.where(place.num_domains > 1, one.alone_s, np.inf))
                out.append(one)
        return out

    def _check_hardware(self, algorithm: str) -> None:
        if algorithm.startswith(("nvls", "put_switch")) and not self.cluster.scale_up.in_network_reduction:
            raise ValueError(f"algorithm = {algorithm}: {self.cluster.scale_up.id} has no in_network_reduction")
        if algorithm.startswith("collnet") and not self.cluster.scale_out.in_network_reduction:
            raise ValueError(f"algorithm = {algorithm}: the scale-out network has no in_network_reduction")

    def two_flows(self, ahead: float, back: float, place: GroupPlacement) -> CollectiveTime:
        """Two messages at once from every rank, to two peers: `ahead` bytes one way and `back` bytes another.

        Each takes its own path between two ranks; together they cannot pass what a rank's port sends. On a switch one
        message fills the port, so they take as long as one after the other; direct links to every peer, or a port
        wider than one message, let them run side by side. A NIC carries both.
        """
        both = self.collective("send_recv", ahead + back, place)
        if float(place.num_domains) > 1:
            return both
        one = self.collective("send_recv", max(ahead, back), place)
        port = self.cluster.scale_up.bytes_per_s * self.params.scale_up_scale * self.params.up.efficiency
        seconds = np.maximum(one.alone_s, one.latency_s + (ahead + back) / port)
        return replace(both, alone_s=np.minimum(seconds, both.alone_s), channels=2.0 * both.channels)

    def p2p(
        self, nbytes: npt.ArrayLike, crosses_domain: npt.ArrayLike = False, sharers: npt.ArrayLike | None = None
    ) -> CollectiveTime:
        """One message between two ranks.

        Args:
            nbytes: Message size.
            crosses_domain: Whether it leaves the scale-up network.
            sharers: Ranks of the domain that send at the same time (all of them when absent).
        """
        cross = np.asarray(crosses_domain, dtype=bool)
        two, one = np.float64(2.0), np.float64(1.0)
        groups = np.asarray(self.cluster.scale_up_domain if sharers is None else sharers, dtype=np.float64)
        place = GroupPlacement(
            size=np.asarray(two),
            ranks_per_domain=np.asarray(np.where(cross, 1.0, 2.0)),
            num_domains=np.asarray(np.where(cross, 2.0, 1.0)),
            groups_per_domain=np.asarray(groups),
            stride=np.asarray(one),
            torus_axes=np.asarray(one),
            torus_hops=np.asarray(one),
        )
        return self.collective("send_recv", nbytes, place)

    def _time(
        self,
        op: str,
        traffic: Traffic,
        rate: clock.Rates,
        thin: Floats,
        protocol: str,
        name: str,
        place: GroupPlacement,
    ) -> CollectiveTime:
        c = self.params
        if protocol not in PROTOCOLS:
            raise ValueError(f"protocol = {protocol}: one of {', '.join(PROTOCOLS)}")
        cuts = None
        if self.cluster.scale_out.fabric is not None:
            thin, cuts = fabric.slow_down(self.cluster, place.num_domains, place.stride, name)
        x = clock.transfer_s(traffic, rate, thin) / (PROTOCOL_RATE[protocol] * ALGORITHM_RATE.get(name, 1.0))
        crosses = traffic.out_bytes > 0
        start, hops = clock.latency_s(op, name, protocol, traffic, place, self.cluster, c)
        if cuts is not None:  # a flow that is cut is posted as several messages
            hops = hops + cuts * traffic.out_hops * c.peer_s
        tau: Floats = np.where(crosses, c.out.tau_s, c.up.tau_s)
        if traffic.in_network:
            tau = np.where(crosses, np.maximum(c.out.tau_s, c.up.switch_tau_s), c.up.switch_tau_s)
        if op == "send_recv":
            tau = np.asarray(c.p2p_tau_s)
        if name in clock.PUTS:
            tau = np.asarray(0.0)
        elif protocol == "ll":  # eight-byte lines: no chunks to fill, but flag polling caps the rate
            tau = np.asarray(0.0)
            sent = (traffic.up_bytes + traffic.out_bytes) / nccl.ll_max_bytes_per_s(self.cluster, place)
            x = np.maximum(x, sent)
        held = np.where(crosses, np.maximum(c.out.channels, c.up.channels), c.up.channels)
        if traffic.host is not None:
            held = np.zeros_like(held)
        elif c.most_channels is not None and c.up.channels:
            held = np.minimum(held, c.most_channels)
            each = (rate.up_switch if traffic.in_network else rate.up) / c.up.channels
            x = np.maximum(x, (traffic.up_bytes + traffic.out_bytes) / (np.minimum(held, c.up.channels) * each))
        moving = (place.size > 1).astype(np.float64)
        latency = moving * (start + hops + c.alpha_s)
        alone = latency + x + np.sqrt(tau * x)
        shape = np.broadcast_shapes(alone.shape, traffic.hbm_bytes.shape)

        def full(value: Any) -> Floats:
            array = np.asarray(value, dtype=np.float64)
            return array if array.shape == shape else np.broadcast_to(array, shape)

        label = (
            name if op in ("send_recv", "all_to_all") or traffic.in_network or traffic.host else f"{name}/{protocol}"
        )
        return CollectiveTime(
            alone_s=full(alone),
            latency_s=full(latency),
            work_scale_up_bytes=full(traffic.up_bytes),
            work_scale_out_bytes=full(traffic.out_bytes),
            channels=full(held * moving),
            hbm_bytes=full(traffic.hbm_bytes),
            algorithm=np.broadcast_to(np.asarray(label), shape),
        )

    @staticmethod
    def _best(times: list[CollectiveTime]) -> CollectiveTime:
        """The fastest, element by element."""
        if len(times) == 1:
            return times[0]
        best = np.argmin(np.stack([t.alone_s for t in times]), axis=0)
        return NetworkModel._select(times, [best == i for i in range(len(times))])

    @staticmethod
    def _select(times: list[CollectiveTime], masks: list[Mask]) -> CollectiveTime:
        def pick(name: str) -> Any:
            values = [getattr(t, name) for t in times]
            return np.select(masks, values, default="" if name == "algorithm" else 0.0)

        return CollectiveTime(
            alone_s=pick("alone_s"),
            latency_s=pick("latency_s"),
            work_scale_up_bytes=pick("work_scale_up_bytes"),
            work_scale_out_bytes=pick("work_scale_out_bytes"),
            channels=pick("channels"),
            hbm_bytes=pick("hbm_bytes"),
            algorithm=pick("algorithm"),
        )
