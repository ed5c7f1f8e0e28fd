"""Which node holds which stage and replica, where links between pairs of nodes attain unlike rates: annealing.

Nodes form a table of stages by replicas. Neighbouring stages of a replica exchange activations, nodes of one stage
reduce gradients round a ring in the order of the table; the hops of the slowest pipeline and the slowest edge of all
rings are what a step waits for. Two nodes change places at a time; worse tables are kept with a chance that falls.

Source: Yim et al., Pipette, DATE 2024, arXiv 2405.18093: workers on a measured matrix of rates by simulated annealing;
Kirkpatrick, Gelatt and Vecchi 1983.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What a step sends between nodes."""

    stages: int
    replicas: int
    hop_bytes: float
    """Of activations from a stage to the next, all micro-batches, there and back."""
    gradient_bytes: float
    """Of one stage, reduced over its replicas."""


def exposed_s(place: Ints, rates: Floats, exchange: Exchange) -> float:
    """Seconds of the slowest pipeline's hops and of the slowest stage's ring.

    Args:
        place: node of each (stage, replica), shape (stages, replicas).
        rates: bytes/s from node to node, shape (nodes, nodes).
        exchange: bytes.
    """
    seconds = 0.0
    if exchange.stages > 1:
        seconds += float((exchange.hop_bytes / rates[place[:-1], place[1:]]).sum(0).max())
    if exchange.replicas > 1:
        n = exchange.replicas
        slowest = rates[place, np.roll(place, -1, axis=1)].min()
        seconds += 2.0 * (n - 1) / n * exchange.gradient_bytes / float(slowest)
    return seconds


def in_order(exchange: Exchange) -> Ints:
    """Nodes as ranks count: replicas of a stage side by side. Shape (stages, replicas)."""
    return np.arange(exchange.stages * exchange.replicas).reshape(exchange.stages, exchange.replicas)


def annealed(rates: Floats, exchange: Exchange, *, steps: int = 4000, seed: int = 0) -> Ints:
    """The best table found, never worse than the order of ranks. Shape (stages, replicas).

    Args:
        rates: bytes/s from node to node, shape (nodes, nodes).
        exchange: bytes; stages times replicas nodes.
        steps: exchanges tried.
        seed: of the draws.

    Raises:
        ValueError: the matrix is not of that many nodes.
    """
    place = in_order(exchange)
    if rates.shape != (place.size, place.size):
        raise ValueError(f"rates: shape {rates.shape}, must be {(place.size, place.size)}")
    rng = np.random.default_rng(seed)
    now = lowest = exposed_s(place, rates, exchange)
    best, heat = place.copy(), 0.2 * now
    flat = place.ravel()
    for step in range(steps if place.size > 1 else 0):
        a, b = rng.integers(0, place.size, 2)
        flat[[a, b]] = flat[[b, a]]
        tried = exposed_s(place, rates, exchange)
        cold = heat * (1.0 - step / steps) + 1e-12
        if tried <= now or rng.random() < np.exp((now - tried) / cold):
            now = tried
            if now < lowest:
                lowest, best = now, place.copy()
        else:
            flat[[a, b]] = flat[[b, a]]
    return best
