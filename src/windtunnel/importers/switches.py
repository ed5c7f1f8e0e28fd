"""Switches that a launch file states as they stand: read by the options that their declarations name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windtunnel.specs.plan import Overlap, PlanSpec
from windtunnel.specs.switches import switches_of
from windtunnel.specs.workload import TrainingSpec

_SECTIONS = (("plan", PlanSpec), ("plan.overlap", Overlap), ("training", TrainingSpec))


def read_switches(target: str, take: Callable[[str, str], Any]) -> None:
    """Put every number that a launch file states as it stands into its field.

    Args:
        target: whose options the file has, as `exporters` calls it.
        take: puts the number under an option, where it is given, into a field.
    """
    for section, record in _SECTIONS:
        for name, switch in switches_of(record).items():
            option = switch.exported.options.get(target)
            if option is not None:
                take(f"{section}.{name}", option)
