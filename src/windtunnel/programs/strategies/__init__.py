"""Strategies: how a problem becomes a program of model calls; one file each, found by id."""

from __future__ import annotations

from windtunnel.programs.strategy import Strategy
from windtunnel.registry import Registry

STRATEGIES: Registry[Strategy] = Registry("strategies", package="windtunnel.programs.strategies", noun="strategy")
