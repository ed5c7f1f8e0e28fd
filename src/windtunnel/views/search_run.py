"""What `windtunnel run --search` shows: the best choice of saves, spares and tiers, and what the next one loses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from windtunnel.quantities import count, percent, seconds, significant
from windtunnel.runs.search_figures import curve, days_against_money
from windtunnel.views.view import Drawing, Section, Table, Text, View, Words, chart, dim, sections, table

if TYPE_CHECKING:
    from windtunnel.runs.run_choice import RunChoice
    from windtunnel.runs.search import RunSearchResult

HEAD = ("tiers", "saves every", "spares", "days (80 %)", "cost", "t CO₂", "goodput", "behind the best (80 %)")
TITLES = {"intervals": "Save interval", "spares": "Hot spares", "tiers": "Tiers of checkpoints"}
_GOALS = {"days": "fewest days", "run_cost": "least money", "carbon_kg": "least carbon"}
_UNITS = {"days": " d", "run_cost": " $", "carbon_kg": " kg"}
_VARIES = {"intervals": (1,), "spares": (2,), "tiers": (0, 1)}
"""Columns in which the choices of a curve differ; tiers come each with the interval that is best for them."""


def view(result: RunSearchResult) -> View:
    """A search over the run's own choices."""
    lines = [line for line in (gain_line(result), runner_up_line(result)) if line]
    lead: list[Words] = [Text(headline(result), "accent", strong=True), *lines]
    hint = "choices around the best; the line joins those that none beats in days and dollars"
    parts: list[Section | None] = []
    if result.best.run_cost is not None:
        parts.append(chart("Days against dollars", partial(days_against_money, result), hint))
    if len(result.front) > 1:
        found = _table(result.front, result, range(len(HEAD)))
        parts.append(Section("None beats these", (found,), "in all that counts"))
    for name, title in TITLES.items():
        if len(result.curves[name]) > 1:
            charts = () if name == "tiers" else (Drawing(partial(curve, result, name)),)
            found = _table(result.curves[name], result, (*_VARIES[name], 3, 4, 7))
            parts.append(Section(title, (*charts, found), "all else as in the best choice"))
    race = (race_line(result), f"simulated in {result.simulated_in_s:.1f} s")
    parts.append(Section("The race", (dim(*race),)))
    return View(
        title=result.scenario_name or "Choices of a run",
        lead=tuple(lead),
        verdict=None if result.complete else Text("Stopped: this is the best so far.", "warn"),
        sections=sections(*parts),
    )


def _table(choices: Sequence[RunChoice], result: RunSearchResult, shown: Sequence[int]) -> Table:
    rows = []
    for one in choices:
        row = cells(one, result)
        rows.append([Text(row[column], strong=one.behind is None) for column in shown])
    numeric = [at for at, column in enumerate(shown) if column]
    return table([HEAD[column] for column in shown], rows, numeric=numeric)


def headline(result: RunSearchResult) -> str:
    """The best choice in one line."""
    best = result.best
    return (
        f"{_GOALS[result.objective]}: {best.tiers}, saves every {seconds(best.interval_s)}, {best.spares} spares: "
        f"{significant(best.days)} days{_money(best)}"
    )


def gain_line(result: RunSearchResult) -> str:
    """What the best gains over the scenario's own run; empty where the grid does not have that."""
    own = result.written
    if own is None:
        return ""
    if own.behind is None:
        return "The scenario's own run is the best choice."
    return f"The scenario's own run: {significant(own.days)} days{_money(own)}; {_behind(own, result)} behind the best."


def runner_up_line(result: RunSearchResult) -> str:
    """What the next choice loses."""
    other = result.runner_up
    if other is None or other.behind is None or other.behind_interval is None:
        return ""
    sure = "" if other.behind_interval[0] > 0 else "; the replications cannot tell them apart"
    said = f"{other.tiers}, every {seconds(other.interval_s)}, {other.spares} spares"
    return f"Next: {said}: {_behind(other, result)} behind{sure}."


def race_line(result: RunSearchResult) -> str:
    """What became of the choices."""
    parts = [f"{number:,} {rule}" for rule, number in result.left_out.items()]
    became = ", ".join([*parts, f"{len(result.front)} left"])
    return (
        f"{result.choices:,} choices: {became}; {result.simulated} were run, in the same random numbers, up to "
        f"{result.best.replications} times. The closed form and the race are statistics, not a proof: a choice is "
        "dropped where another is better with 99 % confidence."
    )


def cells(one: RunChoice, result: RunSearchResult) -> tuple[str, ...]:
    """A choice as a row of `HEAD`."""
    low, high = one.days_interval
    return (
        one.tiers,
        seconds(one.interval_s),
        f"{one.spares}",
        f"{significant(one.days)} ({significant(low)} to {significant(high)})",
        _money(one).removeprefix(", ") or "–",
        "–" if one.carbon_kg is None else count(one.carbon_kg / 1000.0),
        percent(one.goodput),
        "the best" if one.behind is None else _behind(one, result),
    )


def _money(one: RunChoice) -> str:
    return "" if one.run_cost is None else f", ${one.run_cost:,.0f}"


def _behind(one: RunChoice, result: RunSearchResult) -> str:
    assert one.behind is not None and one.behind_interval is not None
    unit, digits = _UNITS[result.objective], 3 if result.objective == "days" else 0
    low, high = one.behind_interval
    text = f"{one.behind:,.{digits}f}{unit} ({low:,.{digits}f} to {high:,.{digits}f})"
    return text.replace("-", "−")
