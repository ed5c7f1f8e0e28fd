"""Coefficients of a network from measured collectives and messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.calibration.solve import least_squares
from windtunnel.calibration.store import Measurement
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import MeasuredValue

_WIDTH = {"efficiency": 0.2, "all_to_all_efficiency": 0.3, "switch_efficiency": 0.3, "scale_out_scale": 0.4}
_WIDE = 0.7
"""How far a machine may lie from its link family, in logs: a rate is bounded by protocol and wires, latencies and ramps
move by factors of two between releases and hosts."""


@dataclass(frozen=True, slots=True)
class Number:
    """A coefficient that may move: start and limits."""

    name: str
    start: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class NetworkFit:
    """Values for `Profile.network`, those for `Profile.coefficients`, and what the model says of every case."""

    network: dict[str, MeasuredValue]
    coefficients: dict[str, MeasuredValue]
    cases: tuple[Measurement, ...]
    model_s: Floats


def fit_network(
    collectives: Sequence[Measurement], messages: Sequence[Measurement], cluster: ClusterSpec
) -> NetworkFit:
    """Rates, latencies and ramps of the links that the cases crossed.

    Args:
        collectives: cases of `operation`, `bytes` (the whole buffer) and `ranks`.
        messages: cases of `bytes` from one rank to another of its scale-up domain.
        cluster: devices that took part; consecutive ranks fill its scale-up domains.
    """
    start = NetworkCoefficients.for_cluster(cluster)
    ranks = np.array([float(m.case.shape["ranks"]) for m in collectives])
    numbers = _numbers(collectives, messages, cluster, start, ranks)
    operations = np.array([str(m.case.shape["operation"]) for m in collectives])
    size = np.array([float(m.case.shape["bytes"]) for m in collectives])
    sent = np.array([float(m.case.shape["bytes"]) for m in messages])

    def model(x: Floats) -> Floats:
        values = {n.name: float(v) for n, v in zip(numbers, x, strict=True)}
        network = NetworkModel(cluster, _with(start, values))
        out = np.empty(len(size))
        for operation in np.unique(operations):
            own = operations == operation
            place = placement(ranks[own], domain=cluster.scale_up_domain)
            out[own] = network.collective(str(operation), size[own], place).alone_s
        return np.concatenate([out, np.broadcast_to(network.p2p(sent, sharers=1.0).alone_s, sent.shape)])

    every = (*collectives, *messages)
    measured = np.array([m.median_s for m in every])
    values, errors = least_squares(
        model,
        [n.start for n in numbers],
        measured,
        [n.low for n in numbers],
        [n.high for n in numbers],
        None if start.up.protocols == ("simple",) else [_WIDTH.get(n.name, _WIDE) for n in numbers],
    )
    source = f"{len(every)} collectives and messages"
    found = {
        n.name: MeasuredValue(value=float(v), relative_error=float(min(e, 9.99)), source=source)
        for n, v, e in zip(numbers, values, errors, strict=True)
    }
    apart = {name: found.pop(name) for name in list(found) if name == "scale_out_scale"}
    return NetworkFit(found, apart, every, model(values))


def _numbers(
    collectives: Sequence[Measurement],
    messages: Sequence[Measurement],
    cluster: ClusterSpec,
    start: NetworkCoefficients,
    ranks: Floats,
) -> list[Number]:
    """What the cases can say something about. Libraries with several protocols keep the ratios between them."""
    up = start.up
    inside = bool((np.minimum(ranks, cluster.scale_up_domain) > 1).any())
    operations = {str(m.case.shape["operation"]) for m in collectives}
    out = []
    if inside or messages:
        out += [
            Number("efficiency", 0.5 if up.protocols == ("simple",) else up.efficiency, 1e-3, 1.0),
            Number("tau_s", up.tau_s, 1e-9, 1e-1),
        ]
    if up.protocols == ("simple",):
        out += [Number("hop_s", 2e-5, 1e-7, 1e-2), Number("base_s", 5e-5, 1e-7, 1e-1)]
    else:
        out += [Number("hop_scale", 1.0, 0.1, 30.0), Number("base_scale", 1.0, 0.1, 30.0)]
        if "all_to_all" in operations and inside:
            out.append(Number("all_to_all_efficiency", up.all_to_all_efficiency, 0.05, 1.0))
        if "all_reduce" in operations and cluster.scale_up.in_network_reduction and up.switch_efficiency:
            out.append(Number("switch_efficiency", up.switch_efficiency, 0.05, 1.0))
    if bool((ranks > cluster.scale_up_domain).any()):
        out.append(Number("scale_out_scale", 1.0, 0.01, 1.0 / start.out.efficiency))
    if messages:
        out += [Number("p2p_base_s", 2e-5, 1e-7, 1e-1), Number("p2p_tau_s", 2e-5, 1e-9, 1e-1)]
    return out


def _with(start: NetworkCoefficients, values: dict[str, float]) -> NetworkCoefficients:
    """Coefficients with `values` laid over them, as `NetworkCoefficients.measured` reads them from a profile."""
    from windtunnel.specs.device import Profile

    out = dict(values)
    scale = out.pop("scale_out_scale", start.scale_out_scale)
    profile = Profile(network={name: MeasuredValue(value=value) for name, value in out.items()})
    return replace(start.measured(profile), scale_out_scale=scale)
