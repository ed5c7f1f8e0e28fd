"""What both forms of a run search's report say in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.quantities import count, percent, seconds

if TYPE_CHECKING:
    from windtunnel.runs.run_choice import RunChoice
    from windtunnel.runs.search import RunSearchResult

HEAD = ("tiers", "saves every", "spares", "days (80 %)", "cost", "t CO₂", "goodput", "behind the best (80 %)")
TITLES = {"intervals": "Save interval", "spares": "Hot spares", "tiers": "Tiers of checkpoints"}
_GOALS = {"days": "fewest days", "run_cost": "least money", "carbon_kg": "least carbon"}
_UNITS = {"days": " d", "run_cost": " $", "carbon_kg": " kg"}


def headline(result: RunSearchResult) -> str:
    """The best choice in one line."""
    best = result.best
    return (
        f"{_GOALS[result.objective]}: {best.tiers}, saves every {seconds(best.interval_s)}, {best.spares} spares: "
        f"{best.days:.2f} days{_money(best)}"
    )


def gain_line(result: RunSearchResult) -> str:
    """What the best gains over the run as written; empty where the grid does not have that."""
    own = result.written
    if own is None:
        return ""
    if own.behind is None:
        return "The run as written is the best choice."
    return f"As written: {own.days:.2f} days{_money(own)}; {_behind(own, result)} behind the best."


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
        f"{one.days:.2f} ({low:.2f} to {high:.2f})",
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
