"""Rates of many connections over long paths, from the window that one path implies."""

from __future__ import annotations

from windtunnel.learning.timing.links import Link, link_of
from windtunnel.specs.learning import WorkerLinkSpec
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def _link(latency_ms: float, connections: int, window_bytes: float) -> Link:
    spec = WorkerLinkSpec(bandwidth=1e12, latency=latency_ms / 1e3, connections=connections, window_bytes=window_bytes)
    return link_of(spec)


def _window_bytes(values: Values) -> float:
    """Bytes in flight of a connection that give the rate across Europe."""
    per_connection = fixed("europe_gbit") * 1e9 / 8 / fixed("connections")
    return float(per_connection * 2 * values["europe_ms"] / 1e3)


def over_the_atlantic(values: Values) -> float:
    """Gb/s between North America and Europe."""
    link = _link(values["atlantic_ms"], fixed("connections"), _window_bytes(values))
    return link.up_bytes_per_s * 8 / 1e9


def one_of_all(values: Values) -> float:
    """Rate of one connection over that of all, across Europe."""
    window = _window_bytes(values)
    one, everything = (_link(values["europe_ms"], n, window) for n in (1, fixed("connections")))
    return one.up_bytes_per_s / everything.up_bytes_per_s


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "atlantic": over_the_atlantic,
        "one": one_of_all,
    }
