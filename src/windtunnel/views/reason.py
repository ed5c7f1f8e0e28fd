"""What `windtunnel reason` shows: strategies of inference, the best one, and what the scenario asks besides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.programs.charts import ACROSS, break_even_chart, front_chart, load_chart
from windtunnel.quantities import assumed_text, duration, seconds, three
from windtunnel.views.view import Lines, Section, Text, Tone, View, Words, chart, dim, pairs, sections, sources, table

if TYPE_CHECKING:
    from windtunnel.charts.chart import Chart
    from windtunnel.programs.result import Point, ReasonResult

GRADES = {
    "fitted": "fitted to measured attempts",
    "assumed": "assumed, not measured",
}
"""What confidence of an accuracy mean, in words."""
_BEST = {
    "accuracy": "most accurate",
    "cost_per_task": "cheapest",
    "joules_per_task": "least energy",
    "latency_p50_s": "least median latency",
    "latency_p99_s": "least p99 latency",
}
_LIMITS: dict[str, Callable[[float], str]] = {
    "accuracy": lambda x: f"at least {x * 100:g} % right",
    "cost_per_task": lambda x: f"at most {x:g} USD a problem",
    "joules_per_task": lambda x: f"at most {x:,g} J a problem",
    "latency_p50_s": lambda x: f"a median of at most {seconds(x)}",
    "latency_p99_s": lambda x: f"99 % of problems within {seconds(x)}",
}
MOST_KNOBS = 3
"""Knobs that have columns of their own."""
LEGEND = (
    "● no other candidate is as good in everything and better in something · ★ best · accuracy with the interval of "
    "the population; dollars, joules and seconds come from the run"
)


def view(result: ReasonResult) -> View:
    """A front of strategies."""
    best = headline(result)
    lead: list[Words] = [Text(best[0].upper() + best[1:], "accent", strong=True)]
    lead += [Text(line, "accent") for line in answer_lines(result)]
    lead += [Text(line, "dim") for line in population_lines(result)]
    return View(
        title=result.scenario_name or "Strategies",
        aside=f"done in {duration(result.simulated_in_s)}",
        lead=tuple(lead),
        sections=sections(
            Section("The best candidate", (pairs(best_lines(result)),), "what is known of each figure"),
            *_charts(result),
            _candidates(result),
            *(
                Section(title, (table(heads, rows, numeric=range(2, len(heads))),), hint)
                for title, hint, heads, rows in answer_tables(result)
            ),
            sources(result.citations),
            Section("In short", (Lines((in_short(result),)),), closing=True),
        ),
        warnings=tuple(warning_lines(result)),
        assumed=tuple(assumed_rows(result)),
    )


def _charts(result: ReasonResult) -> list[Section]:
    """Charts of the questions that the candidates answer."""
    found = [
        (load_chart(result), "next to the points: what 99 of 100 problems keep"),
        (break_even_chart(result), "dots: the same cost a day"),
    ]
    out = [chart(own.title, partial(_same, own), hint) for own, hint in found if own is not None]
    hint = "bars: interval of the population · ring: the best candidate"
    for across in ACROSS:
        if (front := front_chart(result, across)) is not None:
            out.append(chart(f"Accuracy against {across.name}", partial(_same, front), hint))
    return out


def _same(chart: Chart) -> Chart:
    return chart


def _candidates(result: ReasonResult) -> Section:
    rows = []
    for point in result.points:
        mark = "★" if point == result.best else "●" if point.on_front else ""
        tone: Tone = "" if point.on_front else "dim"
        rows.append([Text(cell, tone) for cell in (mark, *row(result, point))])
    heads = ("", *titles(result))
    found = table(heads, rows, numeric=range(1 + left_columns(result), len(heads)))
    return Section("Candidates", (found, dim(LEGEND)))


def titles(result: ReasonResult) -> list[str]:
    """Heads of the columns of `row`; what is the same for all candidates has none."""
    heads = [*_named(result), "accuracy", "USD a problem", "J a problem", "median", "p99"]
    heads += ["in time"] if _has_deadline(result) else []
    return [*heads, "tokens", "calls", *(["devices"] if _unlike_devices(result) else [])]


def row(result: ReasonResult, point: Point) -> list[str]:
    """Cells of a candidate under `titles`."""
    cells = [
        *_named(result, point),
        accuracy(point),
        usd(point.cost_usd),
        "not known" if point.energy_j is None else number(point.energy_j),
        latency(point, "p50"),
        latency(point, "p99"),
    ]
    if _has_deadline(result):
        cells.append("not stated" if point.deadline_met is None else share(point.deadline_met))
    devices = [f"{point.num_devices}"] if _unlike_devices(result) else []
    return [*cells, f"{point.tokens:,.0f}", f"{three(point.calls)}", *devices]


def _named(result: ReasonResult, point: Point | None = None) -> list[str]:
    """Heads of the columns that tell candidates apart, or the cells of one.

    Candidates of one strategy have a column for each knob in which they differ, others one column with the label.
    """
    points = result.points
    out = []
    if len(models := {p.model for p in points}) > 1:
        short = {model: model.rpartition("/")[2] for model in models}
        alone = len(set(short.values())) == len(models)
        out.append("model" if point is None else short[point.model] if alone else point.model)
    if knobs := _telling_knobs(points):
        return out + [name if point is None else _knob(point.knobs.get(name)) for name in knobs]
    return [*out, "strategy" if point is None else point.label]


def _telling_knobs(points: Sequence[Point]) -> list[str]:
    """Knobs by which candidates of one strategy differ; none where it takes more than those."""
    names = list(dict.fromkeys(name for p in points for name in p.knobs))
    names = [name for name in names if len({_knob(p.knobs.get(name)) for p in points}) > 1]
    told = {(p.strategy, p.model, *(_knob(p.knobs.get(name)) for name in names)) for p in points}
    alone = len(told) == len(points) and len({p.strategy for p in points}) == 1
    return names if alone and len(names) <= MOST_KNOBS else []


def _knob(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _has_deadline(result: ReasonResult) -> bool:
    return any(p.deadline_met is not None for p in result.points)


def _unlike_devices(result: ReasonResult) -> bool:
    return len({p.num_devices for p in result.points}) > 1


def left_columns(result: ReasonResult) -> int:
    """How many of the columns are words."""
    return len(_named(result))


def number(value: float) -> str:
    """Three significant digits, without an exponent where that is readable.

    Example:
        >>> number(1308.2), number(0.00192), number(25.3), number(2.5e-6)
        ('1,310', '0.00192', '25.3', '0.0000025')
    """
    rounded = float(f"{value:.3g}")
    if abs(rounded) >= 1000:
        return f"{rounded:,.0f}"
    return f"{rounded:.9f}".rstrip("0").rstrip(".") if abs(rounded) >= 1e-7 else f"{rounded:g}"


def usd(value: float | None, otherwise: str = "no price") -> str:
    """Dollars of a problem."""
    return otherwise if value is None else number(value)


def share(value: float) -> str:
    """A fraction of 1 in percent: whole, but for what rounds to all or none.

    Example:
        >>> share(0.93), share(0.996), share(1.0), share(0.004)
        ('93 %', '99.6 %', '100 %', '0.4 %')
    """
    whole = round(value * 100)
    return f"{value * 100:.1f} %" if whole in (0, 100) and value not in (0.0, 1.0) else f"{whole} %"


def latency(point: Point, which: str) -> str:
    """A quantile of whole problems; a problem that never ended has none."""
    value = point.latency_s[which]
    return "none ended" if value != value else seconds(value)


def accuracy(point: Point) -> str:
    """A share with its band: `58.6 % (51.2 to 64.9)`."""
    own = point.accuracy
    return "not known" if own is None else with_band(own.mean, own.low, own.high)


def with_band(mean: float, low: float, high: float) -> str:
    """A share with its interval, if it has one."""
    band = f" ({low * 100:.1f} to {high * 100:.1f})" if high > low else ""
    return f"{mean * 100:.1f} %{band}"


def headline(result: ReasonResult) -> str:
    """The best candidate in one sentence."""
    known = _LIMITS | {"deadline_met": lambda x: f"{share(x)} of problems within {seconds(result.deadline_s or 0.0)}"}
    limits = " and ".join(known[name](limit) for name, limit in result.limits.items())
    best, wanted = result.best, _BEST[result.objective]
    if best is None:
        return f"no candidate keeps {limits}" if limits else f"no candidate has a figure for {result.objective}"
    of = f" with {limits}" if limits else f" of {len(result.points)} candidates" if len(result.points) > 1 else ""
    figures = [f"{accuracy(best)} right" if best.accuracy is not None else "accuracy not known"]
    figures += [] if best.cost_usd is None else [f"{usd(best.cost_usd)} USD a problem"]
    figures.append(f"p99 {latency(best, 'p99')}")
    return f"{wanted}{of}: {best.label} on {best.model}, {', '.join(figures)}"


def in_short(result: ReasonResult) -> str:
    """What to do, in one sentence."""
    best, tried = result.best, len(result.points)
    if best is None:
        return f"None of {tried} candidates keeps the limits: raise them, or add strategies."
    right = "" if best.accuracy is None else f", right in {best.accuracy.mean * 100:.3g} % of problems"
    cost = "" if best.cost_usd is None else f" for {usd(best.cost_usd)} USD each"
    unmeasured = any(own["grade"] == "assumed" for own in result.population.values())
    sure = "; how often one attempt is right is assumed, so measure that before you decide" if unmeasured else ""
    return f"Take {best.label} on {best.model.rpartition('/')[2]}{right}{cost}{sure}."


def answer_lines(result: ReasonResult) -> list[str]:
    """Answers to what the scenario asks next to the best candidate, a sentence each, of the first three candidates."""
    out = []
    for m in result.answers.get("most_in_time", ())[:3]:
        of = f"{m['label']} on {m['model']}"
        if m["load"] is None:
            out.append(f"{of}: not even the least load keeps the deadline of {seconds(result.deadline_s or 0.0)}")
        elif m["breaks_at"] is None:
            out.append(f"{of}: all loads keep the deadline, up to {m['load']:g} {result.load_unit}")
        else:
            border = f"; the border is at about {number(m['between'])}"
            out.append(f"{of}: {m['load']:g} {result.load_unit} keep the deadline, {m['breaks_at']:g} do not{border}")
    for e in result.answers.get("break_even", ())[:3]:
        of = f"{e['label']} on {e['model']}"
        if e["cheaper"]:
            above = f"above {number(e['tokens_a_day'])} generated tokens a day, {_share(e)} of what they can do"
            out.append(f"{of}: own devices are cheaper than the API {above}")
        else:
            out.append(
                f"{of}: own devices are never cheaper than the API: that would take {_share(e)} of what they can do"
            )
    return out


def best_lines(result: ReasonResult) -> list[tuple[str, str]]:
    """Figures of the best candidate with intervals and grades: name, and what is known of it."""
    best = result.best
    if best is None:
        return []
    own = best.accuracy
    out = []
    if own is not None:
        level = f", {own.level * 100:.0f} % interval" if own.high > own.low else ""
        out.append(("accuracy", f"{accuracy(best)}{level}; {GRADES.get(own.grade, own.grade)}: {own.why}"))
    if best.cost_usd is not None:
        out.append(("dollars", f"{usd(best.cost_usd)} USD a problem{_band(best, 'cost_usd', number)}; {_paid(best)}"))
    if best.energy_j is not None:
        out.append(("energy", f"{number(best.energy_j)} J a problem{_band(best, 'energy_j', number)}"))
    for name, key in (("median", "latency_p50_s"), ("p99", "latency_p99_s")):
        at = "p50" if name == "median" else "p99"
        out.append((name, f"{latency(best, at)}{_band(best, key, seconds)} from a problem's arrival to its answer"))
    if best.deadline_met is not None:
        out.append(("deadline", f"{share(best.deadline_met)} of problems keep it"))
    found = best.cached_tokens / best.prompt_tokens if best.prompt_tokens else 0.0
    read = f"{best.prompt_tokens:,.0f} tokens read ({share(found)} of them found in the cache)"
    out.append(("work", f"{three(best.calls)} calls a problem, {read}, {best.tokens:,.0f} written"))
    out.append(("bound by", best.bound_by))
    return [(name, text) for name, text in out if text]


def _paid(point: Point) -> str:
    devices = "one device" if point.num_devices == 1 else f"all of {point.num_devices} devices"
    return f"{devices}, from the first arrival to the last end"


def _band(point: Point, name: str, words: Callable[[float], str]) -> str:
    """An interval as it stands behind a figure."""
    own = point.intervals.get(name)
    if not own or not own["high"] > own["low"]:
        return ""
    return f" ({words(own['low'])} to {words(own['high'])}, {own['level'] * 100:.0f} % interval)"


def population_lines(result: ReasonResult) -> list[str]:
    """What is known of success, one line a model; nothing where no candidate tells an accuracy."""
    if all(p.accuracy is None for p in result.points):
        return []
    out = []
    for name, own in result.population.items():
        of = f"{name}: " if name else ""
        out.append(f"{of}one attempt is right with {own['pass_1'] * 100:.1f} % ({own['grade']}: {own['why']})")
        out += [f"{of}{note}" for note in own["notes"]]
    return out


def warning_lines(result: ReasonResult) -> list[str]:
    """Everything that a reader should know first."""
    out = [f"{one['label']} on {one['model']}: not served: {one['why']}" for one in result.refused]
    noted: dict[str, list[str]] = {}
    for p in result.points:
        for note in p.notes:
            noted.setdefault(note, []).append(f"{p.label} on {p.model}")
    for note, of in noted.items():
        more = f" and {len(of) - 1} more" if len(of) > 1 else ""
        out.append(f"{of[0]}{more}: {note}")
    return [*out, *result.warnings]


def assumed_rows(result: ReasonResult) -> list[tuple[str, str, str]]:
    """Field, value, why; a field that candidates have with different values comes once, with all of them."""
    known: dict[tuple[str, str], list[str]] = {}
    for name, value, why in result.assumed:
        values = known.setdefault((name, why), [])
        if (text := assumed_text(name, value)) not in values:
            values.append(text)
    return [(name, " or ".join(values), why) for (name, why), values in known.items()]


AnswerTable = tuple[str, str, list[str], list[list[str]]]
"""Title, what it says, heads of columns, rows."""


def answer_tables(result: ReasonResult) -> list[AnswerTable]:
    """Answers as tables, those that the candidates allow."""
    own = result.answers
    out: list[AnswerTable] = []
    if most := own.get("most_in_time"):
        out.append(_most_in_time(result, most))
    if steps := own.get("accuracy_at_cost"):
        rows = [[usd(s["cost_usd"]), s["label"], s["model"], _reached(s)] for s in steps]
        heads = ["from USD a problem", "strategy", "model", "accuracy"]
        out.append(("Best at a budget", "from each budget on, until the next", heads, rows))
    if worth := own.get("verifier_worth"):
        out.append(_worth(worth))
    if sizes := own.get("cheapest_model"):
        models = list(dict.fromkeys(m for s in sizes for m in s["cost_usd"]))
        rows = [
            [f"{s['accuracy'] * 100:.1f} %", s["cheapest"], *(usd(s["cost_usd"].get(m), "not reached") for m in models)]
            for s in sizes
        ]
        hint = "USD a problem for which each model reaches it"
        out.append(("Which model for an accuracy", hint, ["accuracy", "cheapest", *models], rows))
    if steps := own.get("accuracy_at_eflop"):
        rows = [
            [f"{s['eflop']:.3g}", s["label"], s["model"], f"{s['accuracy'] * 100:.1f} %", share(s["share_of_reading"])]
            for s in steps
        ]
        hint = "from each budget on: FLOP, and bytes read from the cache in FLOP of their time (Kinetics)"
        heads = ["from FLOP a problem", "strategy", "model", "accuracy", "of it reading"]
        out.append(("Model size against samples", hint, heads, rows))
    if even := own.get("break_even"):
        out.append(_break_even(even))
    return out


def _most_in_time(result: ReasonResult, most: list[dict[str, Any]]) -> AnswerTable:
    rows = [
        [
            m["label"],
            m["model"],
            "not even the least" if m["load"] is None else f"{m['load']:g}",
            "none of these" if m["breaks_at"] is None else f"{m['breaks_at']:g}",
            "" if m["between"] is None else f"about {number(m['between'])}",
            usd(m["cost_usd"], ""),
        ]
        for m in most
    ]
    kept = share(most[0]["share"])
    hint = f"{result.load_unit} at which {kept} of problems end within {seconds(result.deadline_s or 0.0)}"
    heads = ["strategy", "model", "most that keep it", "least that do not", "the border", "USD a problem there"]
    return "How many before the deadline breaks", hint, heads, rows


def _reached(step: dict[str, Any]) -> str:
    own = step.get("accuracy_interval")
    return with_band(step["accuracy"], *((own["low"], own["high"]) if own else (0.0, 0.0)))


def _worth(worth: list[dict[str, Any]]) -> AnswerTable:
    rows = [
        [
            w["label"],
            w["model"],
            f"{w['accuracy'] * 100:.1f} %",
            *(usd(w[name], "not reached") for name in ("cost_usd", "cost_without_usd", "worth_usd")),
        ]
        for w in worth
    ]
    heads = ["strategy", "model", "accuracy", "USD with scores", "USD without", "worth of the scores"]
    hint = "what the same accuracy costs without them, and the difference: below 0 they do not pay"
    return "What scores are worth", hint, heads, rows


def _break_even(even: list[dict[str, Any]]) -> AnswerTable:
    rows = [
        [
            e["label"],
            e["model"],
            *(usd(e[name]) for name in ("api_usd_a_problem", "own_usd_a_problem_at_full_use")),
            "never" if not e["cheaper"] else number(e["tokens_a_day"]),
            _share(e),
        ]
        for e in even
    ]
    heads = ["strategy", "model", "API, USD a problem", "own at full use", "even at tokens a day", "of capacity"]
    return "Own devices or an API", "own devices are cheaper above these generated tokens a day", heads, rows


def _share(even: dict[str, Any]) -> str:
    value, band = even["share_of_capacity"], even["share_of_capacity_interval"]
    text = share(value)
    if isinstance(band, dict):
        text += f" ({band['low'] * 100:.0f} to {band['high'] * 100:.0f})"
    return text
