"""One choice of checkpoint tiers, save interval and spares, with its figures."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """One choice with its figures."""

    tiers: str
    """Tiers in words: `host async + storage async ×4`."""
    interval_s: float
    spares: int
    replications: int
    days: float
    days_interval: tuple[float, float]
    """80 % of the mean."""
    run_cost: float | None
    carbon_kg: float | None
    goodput: float
    expected_days: float
    """In closed form."""
    behind: float | None = None
    """How much more of the objective than the best: mean of paired differences."""
    behind_interval: tuple[float, float] | None = None
