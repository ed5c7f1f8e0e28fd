"""What `windtunnel advise` shows: what bounds the scenario, then what to change, what it gains and what moves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from windtunnel.charts.chart import Axis, Chart
from windtunnel.charts.forms import Bar, Bars
from windtunnel.quantities import count, dollars, duration, gib, percent, seconds, signed_gib, three
from windtunnel.views.view import Lines, Section, Table, Text, View, Words, chart, dim, sections, sources, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from windtunnel.advice import Advice, Suggestion

SHOWN = {"settings": 5, "suggestions": 8, "pairs": 4, "unlike": 4}
"""Suggestions of a kind that are listed unless all are asked for."""
GROUPS = (
    ("settings", "Settings first: no technique needed (`windtunnel plan` searches all of them)"),
    ("suggestions", "Techniques"),
    ("pairs", "Two together, where that beats the better one"),
    ("unlike", "Not like for like: another model, approximate results, or more hardware: at a cost not counted here"),
)
FAR = 0.1
"""Loss beyond which a technique is named without why, unless everything is asked for."""
_LONG = 150
"""Characters of a remark on what is not modelled, unless everything is asked for."""
_RUN_GROUPS = {
    "settings": "Settings first: no technique needed (`plan --objective days` and `run --search` search more of them)"
}
_RUN_COLUMNS = {"days": "days", "run_cost": "dollars", "energy_kwh": "energy"}
_NOTHING = "changes nothing that counts here"
_TONES = {"settings": "#607d8b", "suggestions": "#1565c0", "pairs": "#2e8b57", "unlike": "#e0862c"}
_NAMES = {
    "settings": "settings",
    "suggestions": "techniques",
    "pairs": "two together",
    "unlike": "not like for like",
}
_LONGEST = 46
"""Characters of a change next to its bar."""


def view(advice: Advice, *, everything: bool = False) -> View:
    """The advice; what a terminal has no room for stands in sections for pages.

    Args:
        advice: what was tried.
        everything: whether the terminal lists every suggestion, and why techniques do not apply.
    """
    first, *rest = head_lines(advice)
    parts: list[Section | None] = []
    every = [one for name, _ in GROUPS for one in getattr(advice, name)]
    if every:
        hint = f"gain of the objective against today; {intervals_of(advice)}"
        parts.append(chart("What gains", partial(gains, advice), hint))
    for name, title in GROUPS:
        title = _RUN_GROUPS.get(name, title) if advice.of_a_run else title
        parts += _group(advice, getattr(advice, name), title, None if everything else SHOWN[name])
    if not every:
        parts.append(Section("", (Lines(("nothing that was tried gains here",)),)))
    elif any(not s.told_apart for s in every):
        unsure = f"· gains whose interval holds 0 cannot be told from none; {intervals_of(advice)}"
        parts.append(Section("", (dim(unsure),)))
    unfit = [f"{name}: {why}" for name, why in advice.unfit.items()]
    number = [f"{len(unfit)} techniques do not apply here: --all says why"] if unfit else []
    for title, short, full in (
        ("No gain here", lost_lines(advice.lost), lost_lines(advice.lost, everything=True)),
        ("Could not be tried", refused_lines(advice.refused), refused_lines(advice.refused, everything=True)),
        ("Does not apply", number, unfit),
    ):
        parts += _listed(title, full if everything else short, full)
    papers = [f"{change_text(one)}: {' '.join(one.papers)}" for one in every if one.papers and one.kind != "pair"]
    parts.append(sources(papers, "Papers"))
    lead: tuple[Words, ...] = (Text(first, strong=True), *rest)
    return View(title=f"Advice for {advice.scenario_name}", lead=lead, sections=sections(*parts))


def _listed(title: str, printed: list[str], full: list[str]) -> list[Section]:
    """Lines as the terminal prints them, and in full for pages where they differ."""
    own = [Section(title, (Lines(tuple(printed)),))]
    return own if printed == full else [*own, Section(f"{title}, in full", (Lines(tuple(full)),), pages_only=True)]


def _group(advice: Advice, found: Sequence[Suggestion], title: str, most: int | None) -> list[Section]:
    """Suggestions of a kind with what to know about each; those beyond `most`, and what was cut, for pages."""
    if not found:
        return []
    listed, rest = found[:most], () if most is None else found[most:]
    own = _notes(advice, listed, everything=most is None)
    more = (dim(f"{len(rest)} more: --all"),) if rest else ()
    out = [Section(title, (_table(advice, listed, 1), own, *more))]
    full = tuple(line for line in _notes(advice, found, everything=True).lines if line not in own.lines)
    pages = (_table(advice, rest, len(listed) + 1),) if rest else ()
    return [*out, Section(f"{title.split(':', maxsplit=1)[0]}, in full", (*pages, Lines(full)), pages_only=True)]


def intervals_of(advice: Advice) -> str:
    """What the intervals of gains are of."""
    of_plans = "intervals are of measured pairs of plans, a technique counts as a setting"
    if not advice.of_a_run:
        return of_plans
    return f"intervals are of runs in the same random numbers, two by two; where the step changes {of_plans}"


def _table(advice: Advice, listed: Sequence[Suggestion], first: int) -> Table:
    level = next((s.level for s in listed if s.level), 0.0)
    gain = "gain" if speeds(advice) else "change"
    others = [*dict.fromkeys(name for s in listed for name in other_figures(advice, s))]
    changes = any(s.memory_change_bytes for s in listed) if advice.of_a_run else True
    memory = changes and any(s.memory_change_bytes is not None for s in listed) and advice.objective.id != "memory"
    fits = not advice.fits
    steps = any(s.step_gain is not None for s in listed)
    heads = [
        *("", "change", advice.objective.title, f"{gain} ({100 * level:.0f} % interval)" if level else gain, *others),
        *(("memory",) if memory else ()),
        *(("fits",) if fits else ()),
        *(("speed",) if steps else ()),
        "what moves",
    ]
    rows = []
    for at, one in enumerate(listed, first):
        change, own = one.memory_change_bytes, other_figures(advice, one)
        cells = [str(at), change_text(one), figure_text(advice, one.value), gain_text(advice, one)]
        cells += [own.get(name, "") for name in others]
        cells += [signed_gib(change) if change is not None else ""] if memory else []
        cells += ["yes" if one.fits else "no"] if fits else []
        cells += [signed(one.step_gain) if one.step_gain is not None else ""] if steps else []
        rows.append([*cells, moved_text(advice, one)])
    return table(heads, rows, numeric=range(2, len(heads) - 1), drop=(-1,))


def _notes(advice: Advice, listed: Sequence[Suggestion], *, everything: bool) -> Lines:
    return Lines(
        tuple(
            Text(f"{at}: {'. '.join(known)}", "dim")
            for at, one in enumerate(listed, 1)
            if (known := notes(advice, one, everything=everything))
        )
    )


def figure_text(advice: Advice, value: float) -> str:
    """A value of the objective with its unit."""
    name = advice.objective.figure
    if advice.of_a_run:
        return run_figure(name, value)
    if name.endswith("_bytes"):
        return gib(value)
    if name == "step_time_s" or "_s." in name:
        return seconds(value)
    if name.endswith("_j"):
        return f"{three(value)} J"
    if name.startswith("cost_"):
        return dollars(value)
    return count(value) if value >= 1000 else f"{three(value)}"


def run_figure(name: str, value: float) -> str:
    """A figure of a whole run with its unit."""
    if name == "days":
        return duration(value * 86400.0)
    if name == "run_cost":
        return f"${three(value / 1e6)} M" if value >= 1e6 else dollars(value)
    if name == "host_bytes":
        return gib(value)
    return f"{three(value / 1e3)} {'MWh' if name == 'energy_kwh' else 't CO₂'}"


def other_figures(advice: Advice, one: Suggestion) -> dict[str, str]:
    """Of a run: days, dollars, energy and carbon as they become, next to the objective, with their changes."""
    return {
        _RUN_COLUMNS[name]: f"{run_figure(name, after)} {signed(after / before - 1.0)}"
        for name, before, after in one.also
        if name in _RUN_COLUMNS and name != advice.objective.figure and before
    }


def signed(value: float, digits: int = 1) -> str:
    """A relative change in per cent."""
    return f"{100 * value:+.{digits}f}".replace("-", "−") + " %"


def gain_text(advice: Advice, one: Suggestion) -> str:
    """Gain with its interval; of memory, energy and money the change of the figure."""
    ends = [one.gain, one.low, one.high]
    if not speeds(advice):
        ends = [1.0 / (1.0 + x) - 1.0 for x in (one.gain, one.high, one.low)]
    if not one.level:
        return signed(ends[0])
    fine = 1 if advice.of_a_run else 0  # paired runs tell small differences
    low, high = (signed(end, fine).removesuffix(" %") for end in ends[1:])
    return f"{signed(ends[0])}  ({low} to {high})"


def speeds(advice: Advice) -> bool:
    """Whether a gain is one of speed or rate: else the change of the figure itself says more."""
    return advice.objective.larger or advice.objective.figure == "step_time_s"


def moved_text(advice: Advice, one: Suggestion) -> str:
    """What is otherwise, from before to after: tensors where memory is what counts, else classes of time."""
    tensors = [f"{name} {gib(a)} → {gib(b)}" for name, a, b in one.freed[:3]]
    if advice.of_a_run:
        return ", ".join(f"{name} {duration(a)} → {duration(b)}" for name, a, b in one.moved[:3])
    times = [f"{name} {_amount(name, a)} → {_amount(name, b)}" for name, a, b in one.moved[:3]]
    if advice.objective.id == "memory":
        return ", ".join(tensors or times)
    if not advice.fits:
        return ", ".join([*tensors[:2], *times[:1]])
    return ", ".join(times)


def _amount(name: str, value: float) -> str:
    if name == "prefix hits":
        return percent(value)
    return count(value) if name in ("output tokens/s", "preemptions", "devices") else seconds(value)


def head_lines(advice: Advice) -> list[str]:
    """What is, before what could be."""
    lines = [f"{advice.scenario_name}: {advice.objective.title} {figure_text(advice, advice.value)}"]
    if not advice.fits:
        lines[0] += ", but it does not fit in memory: what makes it fit, or comes closest, is first"
    if advice.shares:
        shown = [f"{name} {percent(share)}" for name, share in advice.shares.items() if share >= 0.01][:6]
        lines.append(f"time goes to {', '.join(shown)}".replace("_", " "))
    elif advice.bottleneck:
        lines.append(f"bound by {advice.bottleneck}")
    if advice.memory and (not advice.fits or advice.objective.id == "memory"):
        shown = [f"{name} {gib(size)}" for name, size in advice.memory.items() if size >= 2**28][:5]
        lines.append(f"memory at the peak goes to {', '.join(shown)}")
    worth = sorted((v, n) for n, v in advice.sensitivities.items() if v < -5e-4)[:3]
    if worth:
        gains = ", ".join(f"{name} {signed(value)}" for value, name in worth)
        lines.append(f"bound by {advice.bottleneck}; step time with 10 % more of a resource: {gains}")
    return [*lines, *advice.notes]


def change_text(one: Suggestion) -> str:
    """Name and knobs; of what is but another plan, its fields first."""
    from windtunnel.advice.plans import words

    plan = words(one.replanned) if one.kind == "setting" and one.summary else ""
    return f"{plan} (as {one.words})" if plan else one.words


def options_text(one: Suggestion, framework: str, *, everything: bool = False) -> str:
    """Under which option a framework has it, the user's own first; others only where that has none."""
    from windtunnel.advice.software import relatives

    own = next((name for name in (framework, *relatives(framework)) if name in one.where), "")
    if own and not everything:
        return f"{own}: {one.where[own]}" + ("" if own == framework else f" (nearest to {framework})")
    order = sorted(one.where, key=lambda name: name != own)
    told = "; ".join(f"{name}: {one.where[name]}" for name in (order if everything else order[:2]))
    return f"no option of {framework} is known; {told}" if told and not own else told


def notes(advice: Advice, one: Suggestion, *, everything: bool = False) -> list[str]:
    """What a reader should know before switching it on."""
    out = [one.summary] if one.summary and one.kind != "pair" else []
    if one.kind == "pair" and any(set(s.names) & set(one.names) for s in advice.settings if s.summary):
        from windtunnel.advice.plans import words

        out.append(f"the plan is then {words(one.replanned)}")
    if one.relieves:
        out.append(f"relieves {one.relieves}")
    if one.alike:
        out.append(f"the same result here: {', '.join(one.alike)}")
    if one.where:
        out.append(options_text(one, advice.framework, everything=everything))
    if not one.told_apart and advice.of_a_run:
        out.append("not resolved: its interval holds 0")
    if one.costs and one.kind != "pair":
        out.append(f"costs: {one.costs.rstrip('.')}")
    copies = ((gib(a), gib(b)) for name, a, b in one.also if name == "host_bytes")
    out += [f"copies take {after} of a node's host memory, {before} today" for before, after in copies]
    if one.quality:
        out.append(f"quality: {one.quality}")
    if one.assumes and one.kind != "pair":
        facts = ", ".join(f"{name.split('.', 1)[1]} {value}" for name, value in one.assumes.items())
        out.append(f"taken as given: {facts}")
    if one.adds:
        out.append(f"takes more hardware: {one.adds}")
    if one.missing and (one.kind != "pair" or everything):
        out.append(f"not modelled: {one.missing if everything else _cut(one.missing)}")
    if one.conflicts:
        named = one.conflicts if everything else one.conflicts[:3]
        more = f" and {len(one.conflicts) - len(named)} more" if len(named) < len(one.conflicts) else ""
        out.append(f"not together with {', '.join(named)}{more}")
    return out


def _cut(text: str) -> str:
    return text if len(text) <= _LONG else text[:_LONG].rsplit(" ", 1)[0].rstrip(",;:") + " …"


def lost_lines(lost: Mapping[str, str], *, everything: bool = False) -> list[str]:
    """What does not gain: near misses with why, those that lose much and those that do nothing by name."""
    idle = [name for name, why in lost.items() if why == _NOTHING]
    far = [name for name, why in lost.items() if why.startswith("−") and _loss(why) > FAR and not everything]
    told = [f"{name} ({why})" for name, why in lost.items() if name not in {*idle, *far}]
    lines = [", ".join(told)] if told else []
    lines += [f"lose more than {100 * FAR:.0f} %: {', '.join(far)}"] if far else []
    return [*lines, *([f"change nothing that counts: {', '.join(idle)}"] if idle else [])]


def _loss(why: str) -> float:
    return float(why[1:].split(" ", 1)[0]) / 100


def refused_lines(refused: Mapping[str, str], *, everything: bool = False) -> list[str]:
    """What could not be tried: by name where sizes do not divide, else with why."""
    sizes = [name for name, why in refused.items() if "must divide" in why and not everything]
    told = [f"{name}: {why}" for name, why in refused.items() if name not in sizes]
    lines = ["; ".join(told)] if told else []
    return [*lines, *([f"no size of theirs divides this cluster: {', '.join(sizes)}"] if sizes else [])]


def gains(advice: Advice) -> Chart:
    """Bars of gains with their intervals, best at the top of each kind."""
    bars: list[Bar] = []
    for name, _ in GROUPS:
        for one in getattr(advice, name)[: SHOWN[name]]:
            told = f"{change_text(one)}\n{_NAMES[name]}; gain {gain_text(advice, one)}\n{moved_text(advice, one)}"
            label = _label(one, [bar.name for bar in bars])
            low, high = 100 * one.low, 100 * one.high
            band = {"low": low, "high": high} if one.level else {}
            bars.append(
                Bar(name=label, end=100 * one.gain, series=_NAMES[name], text=signed(one.gain), told=told, **band)
            )
    used = {bar.series for bar in bars}
    return Bars(
        title="Gain of each change",
        bars=tuple(bars),
        layers=(),
        series={name: _TONES[key] for key, name in _NAMES.items() if name in used},
        x=Axis(title=f"gain in {advice.objective.title}, %"),
        y=Axis(kind="band"),
        mark=0.0,
    )


def _label(one: Suggestion, taken: list[str]) -> str:
    """A short name that no other bar has."""
    text = change_text(one)
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"
    while text in taken:
        text += " "
    return text
