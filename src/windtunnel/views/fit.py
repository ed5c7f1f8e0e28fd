"""What `windtunnel fit` shows: whether a plan fits, what is largest, and the nearest plans that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.quantities import gib, percent, probability
from windtunnel.training.results.one_line import fit_tone
from windtunnel.views.view import Column, Section, Table, Text, View, pairs

if TYPE_CHECKING:
    from windtunnel.planner.memory_fit import FitResult


_KEPT = "with the plan's own tp, pp, cp, zero and recompute"


def view(result: FitResult) -> View:
    """Whether a plan fits into memory."""
    fit = result.to_dict()
    reserved, capacity = fit["reserved_bytes"], fit["capacity_bytes"]
    over = fit["over_bytes"]
    room = f"{gib(capacity - reserved)} free" if fit["fits"] or not over else f"{gib(over)} too much"
    words = f"{'fits' if fit['fits'] else 'does not fit'}: {gib(reserved)} of {gib(capacity)} reserved, {room}"
    if (likely := fit.get("fit_probability")) is not None:
        words += f"; probability to fit {probability(likely)}"
    at_peak = sorted(fit["at_peak"].items(), key=lambda item: -item[1])
    numbers = (Column(), Column(numeric=True), Column(numeric=True))
    peak = Table(numbers, tuple((kind, gib(size), percent(size / capacity)) for kind, size in at_peak))
    nearest = [
        ("largest micro-batch", _or_none(fit["largest_mbs"], "none, not even 1")),
        ("fewest devices", _or_none(fit["fewest_devices"], "none, however many")),
    ]
    for change in fit.get("changes", ()):
        nearest.append((f"on {change['devices']:,} devices", f"with {', '.join(change['settings'])}"))
    return View(
        title="Fit in memory",
        verdict=Text(words, fit_tone(likely, fits=fit["fits"])),
        sections=(
            Section(f"At the peak, stage {fit['stage']}", (peak,)),
            Section("What fits", (pairs(nearest),), _KEPT),
        ),
        warnings=result.not_runnable,
    )


def _or_none(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:,}"
