"""Explanations of a step and of a deployment, for `explain` and for the figures of other commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.commands.base import SILENT, Listener
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.serving.explanation import ServingExplanation
    from windtunnel.training.explanation import Explanation


def of_step(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    listener: Listener = SILENT,
    against: str | float | Path | None = None,
) -> Explanation:
    """The chain from data sheet to second of a training step, and what could account for a measurement."""
    from windtunnel.commands.open_plan import planned
    from windtunnel.training.explanation import explain_source

    taken = planned(source, overrides, listener)
    return explain_source(taken.source, against=against, overrides=taken.overrides, chosen_by_planner=taken.chosen)


def of_serving(source: Source, overrides: Sequence[str] = ()) -> ServingExplanation:
    """Data-sheet rates and coefficients behind each kind of iteration of a deployment."""
    from windtunnel.serving.explanation import explain_serving

    return explain_serving(source, overrides=overrides)
