"""Mixing without a centre: graphs that workers gossip over, one file each, found by id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from windtunnel.registry import Registry

Edges = tuple[tuple[int, int], ...]
"""Pairs of workers that are joined, the lower first, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphKind:
    """A graph that a scenario can name."""

    id: str
    summary: str
    edges: Callable[[int], Edges]
    """Workers → pairs that are joined."""
    problem: Callable[[int], str | None] = lambda workers: None
    """Workers → which rule their number breaks, None where the graph exists."""


GRAPHS: Registry[GraphKind] = Registry("learning_graphs", package="windtunnel.learning.mixing", noun="graph")
