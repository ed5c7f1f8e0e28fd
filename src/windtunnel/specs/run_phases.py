"""Stretches of a training run whose steps differ from the others."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from windtunnel.errors import BadInput, Problem
from windtunnel.specs.base import Spec


class RunPhase(Spec):
    """Steps of the run that are not as the scenario writes them.

    Phases do not overlap; what they leave is as written.
    """

    name: str = Field(min_length=1)
    """Name of the phase in results."""
    share: float | None = Field(default=None, gt=0, lt=1)
    """Share of the run's steps; leave it out next to `every`."""
    every: int | None = Field(default=None, ge=2, le=10**9)
    """One step in so many, in place of a share."""
    set: dict[str, Any] = {}
    """Fields of `training` and `plan` in these steps, as `--set` takes them: `training.global_batch: 512`."""
    without: tuple[str, ...] = ()
    """Techniques of the scenario that do not act in these steps."""

    @model_validator(mode="after")
    def _one_of_both(self) -> RunPhase:
        if (self.share is None) == (self.every is None):
            raise ValueError("needs one of `share` (of the run's steps) and `every` (one step in so many)")
        return self

    @property
    def fraction(self) -> float:
        """Share of the run's steps that belong to this phase."""
        return self.share if self.share is not None else 1.0 / (self.every or 1)


def refuse_run(run: tuple[RunPhase, ...], what: str) -> None:
    """Say that something reads one kind of step alone.

    Raises:
        BadInput: the scenario has several.
    """
    if run:
        rule = f"{what} reads steps of one kind; `train`, `compare` and `advise` read all phases of a run"
        raise BadInput(Problem("training.run", rule))
