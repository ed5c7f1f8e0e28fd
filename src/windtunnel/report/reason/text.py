"""Words and cells of a front, shared by terminal and report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.report.quantities import seconds

if TYPE_CHECKING:
    from windtunnel.programs.result import Point, ReasonResult

TITLES = ("model", "strategy", "accuracy", "USD a problem", "J a problem", "p50", "p99", "tokens", "calls", "devices")


def row(point: Point, *, several_models: bool) -> list[str]:
    """Cells of a candidate under `titles`."""
    cells = [
        point.model,
        point.label,
        accuracy(point),
        "not known" if point.cost_usd is None else f"{point.cost_usd:.3g}",
        "not known" if point.energy_j is None else f"{point.energy_j:,.3g}",
        seconds(point.latency_s["p50"]),
        seconds(point.latency_s["p99"]),
        f"{point.tokens:,.0f}",
        f"{point.calls:,.4g}",
        f"{point.num_devices}",
    ]
    return cells if several_models else cells[1:]


def titles(*, several_models: bool) -> list[str]:
    """Heads of the columns of `row`."""
    return list(TITLES if several_models else TITLES[1:])


def accuracy(point: Point) -> str:
    """A share with its band: `58.6 % (51.2 to 64.9)`."""
    own = point.accuracy
    if own is None:
        return "not known"
    band = f" ({own.low * 100:.1f} to {own.high * 100:.1f})" if own.high > own.low else ""
    return f"{own.mean * 100:.1f} %{band}"


def headline(result: ReasonResult) -> str:
    """The best candidate in one sentence."""
    kept = ", ".join(f"{name} {limit:g}" for name, limit in result.limits.items())
    within = f" within {kept}" if kept else ""
    best = result.best
    if best is None:
        return f"no candidate keeps {kept}" if kept else f"no candidate has a figure for {result.objective}"
    cost = "" if best.cost_usd is None else f", {best.cost_usd:.3g} USD"
    return f"best {result.objective}{within}: {best.label} on {best.model}, {accuracy(best)}{cost} a problem"


def population_lines(result: ReasonResult) -> list[str]:
    """What is known of success, one line a model."""
    out = []
    for name, own in result.population.items():
        of = f"{name}: " if name else ""
        out.append(f"{of}one attempt is right with {own['pass_1'] * 100:.1f} % ({own['grade']}: {own['why']})")
        out += [f"{of}{note}" for note in own["notes"]]
    return out


AnswerTable = tuple[str, str, list[str], list[list[str]]]
"""Title, what it says, heads of columns, rows."""


def answer_tables(result: ReasonResult) -> list[AnswerTable]:
    """Answers as tables, those that the candidates allow."""
    own = result.answers
    out: list[AnswerTable] = []
    if steps := own.get("accuracy_at_cost"):
        rows = [[f"{s['cost_usd']:.3g}", s["label"], s["model"], f"{s['accuracy'] * 100:.1f} %"] for s in steps]
        heads = ["from USD a problem", "strategy", "model", "accuracy"]
        out.append(("Best at a budget", "from each budget on, until the next", heads, rows))
    if worth := own.get("verifier_worth"):
        rows = [
            [
                w["label"],
                w["model"],
                f"{w['accuracy'] * 100:.1f} %",
                *(_usd(w[name]) for name in ("cost_usd", "cost_without_usd", "worth_usd")),
            ]
            for w in worth
        ]
        heads = ["strategy", "model", "accuracy", "USD with scores", "USD without", "worth of the scores"]
        out.append(("What scores are worth", "cost of the same accuracy without them", heads, rows))
    if sizes := own.get("cheapest_model"):
        models = list(dict.fromkeys(m for s in sizes for m in s["cost_usd"]))
        rows = [
            [f"{s['accuracy'] * 100:.1f} %", s["cheapest"], *(_usd(s["cost_usd"].get(m)) for m in models)]
            for s in sizes
        ]
        out.append(("Which model for an accuracy", "USD a problem", ["accuracy", "cheapest", *models], rows))
    if even := own.get("break_even"):
        rows = [
            [
                e["label"],
                e["model"],
                *(_usd(e[name]) for name in ("api_usd_a_problem", "own_usd_a_problem_at_full_use")),
                f"{e['tokens_a_day']:,.3g}",
                _share(e),
            ]
            for e in even
        ]
        heads = ["strategy", "model", "API, USD a problem", "own at full use", "even at tokens a day", "of capacity"]
        out.append(("Own devices or an API", "own devices are cheaper above these tokens a day", heads, rows))
    return out


def _usd(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.3g}"


def _share(even: dict[str, object]) -> str:
    share, band = even["share_of_capacity"], even["share_of_capacity_interval"]
    assert isinstance(share, float)
    text = f"{share * 100:.0f} %"
    if isinstance(band, dict):
        text += f" ({band['low'] * 100:.0f} to {band['high'] * 100:.0f})"
    return text if share < 1 else f"{text}: never"
