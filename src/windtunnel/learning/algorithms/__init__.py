"""Algorithms that train on many workers; one file each, found by id."""

from __future__ import annotations

from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.registry import Registry

ALGORITHMS: Registry[AlgorithmKind] = Registry("algorithms", package="windtunnel.learning.algorithms", noun="algorithm")
