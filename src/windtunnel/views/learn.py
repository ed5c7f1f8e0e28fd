"""What `windtunnel learn` shows: algorithms next to each other, what the small task cannot tell, curves."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.learning.charts import ACROSS, Across, loss_chart, seed_band, shown
from windtunnel.quantities import assumed_text, count, dollars, duration, percent, seconds, signed_percent, three
from windtunnel.views.view import Code, Lines, Section, Text, View, Words, chart, dim, sections, sources, table

if TYPE_CHECKING:
    from windtunnel.learning.records import AlgorithmFigures
    from windtunnel.learning.results import LearningResult

_MARKS = "●○▲△■□◆◇"
_HIGH = 18
_ROOM = 100
"""Characters of a line where a caller states none."""
_BESIDE = 13
"""Characters of a line beside the plot: the section's indent, and the numbers of the axis."""
_NARROWEST = 24


def view(result: LearningResult, *, plot: bool = False, width: int = _ROOM) -> View:
    """Learned curves.

    Args:
        result: what was learned.
        plot: whether curves are drawn in characters, for a terminal.
        width: characters of that terminal's lines.
    """
    lead: list[Words] = [Text(headline(result), "accent", strong=True), Text(target_line(result), "dim")]
    lead += [Text(f"target: {goal_line(result)}", "dim")] if result.goal else []
    titles, rows = table_rows(result)
    verdicts = tuple(Text(line, "warn") for line in verdict_lines(result))
    late = tuple(f"{label}: staleness {words}" for label, words in staleness_rows(result))
    law = tuple(law_lines(result))
    chosen = ACROSS[1] if shown(result, ACROSS[1]) else ACROSS[0]
    seeds = "mean of the seeds; the interval is from the lowest to the highest" if len(result.seeds) > 1 else ""
    rate = result.worker_steps_per_s
    learned = "all curves were kept from before" if rate is None else f"{rate:,.0f} worker-steps/s of a process"
    return View(
        title=result.scenario_name or "Learning",
        lead=tuple(lead),
        sections=sections(
            Section(
                "Algorithms side by side",
                (table(titles, rows, numeric=range(1, len(titles))), Lines(late), Lines(verdicts), Lines(law)),
                "loss of the small task; bytes and times of the target",
            ),
            Section("Curves", (Code(drawn(result, chosen, width)),)) if plot else None,
            *(
                chart(f"Loss against {across.name}", partial(loss_chart, result, across), seeds)
                for across in ACROSS
                if shown(result, across)
            ),
            Section(
                "Bytes by link",
                (table(("algorithm", "link", "bytes"), link_rows(result), numeric=(2,)),),
                "of all workers",
                pages_only=True,
            ),
            Section(
                "How well each figure is known",
                (table(("figure", "confidence"), result.grades.items()),),
                pages_only=True,
            ),
            Section("Notes", (Lines(dim(*result.notes).lines, marked=True),)),
            sources(result.citations),
            Section("", (dim(f"{learned} · done in {duration(result.simulated_in_s)}"),)),
        ),
        warnings=tuple(result.warnings),
        assumed=tuple((field, assumed_text(field, value), why) for field, value, why in result.assumed),
    )


def headline(result: LearningResult) -> str:
    """Task, workers, steps and seeds."""
    seeds = "1 seed" if len(result.seeds) == 1 else f"{len(result.seeds)} seeds"
    workers = "1 worker" if result.workers == 1 else f"{result.workers:,} workers"
    steps = "1 local step" if result.steps == 1 else f"{result.steps:,} local steps"
    return f"{result.task}: {workers}, {steps} each, {seeds}"


def target_line(result: LearningResult) -> str:
    """What is timed."""
    t = result.target
    what = t["model"] or f"{count(t['parameters'])} parameters"
    if t["step_s"] is None:
        return f"bytes are of {what}; nothing says how long a step takes, so there are no hours"
    return f"times and bytes are of {what}: a local step takes {seconds(t['step_s'])}, {t['source']} ({t['grade']})"


def loss_text(a: AlgorithmFigures) -> str:
    """Loss at the end and half of the seeds' range."""
    if a.loss is None:
        return "diverged" if a.diverged else ""
    assert a.loss_low is not None and a.loss_high is not None
    spread = 0.5 * (a.loss_high - a.loss_low)
    return f"{a.loss:.4g} ± {spread:.1g}" if spread > 0 else f"{a.loss:.4g}"


def to_target(a: AlgorithmFigures) -> str:
    """Time to target, or why there is none."""
    if a.time_to_target_s is not None:
        return duration(a.time_to_target_s)
    return f"{a.reached} of the seeds" if a.reached else "not reached"


def data(nbytes: float) -> str:
    """Bytes in decimal units, as links are rated.

    Example:
        >>> data(12e12), data(512)
        ('12.0 TB', '512 B')
    """
    for limit, unit in ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(nbytes) >= limit:
            return f"{nbytes / limit:,.3g} {unit}" if nbytes < 100 * limit else f"{nbytes / limit:,.0f} {unit}"
    return f"{nbytes:,.0f} B"


_COLUMNS: tuple[tuple[str, Callable[[AlgorithmFigures], str]], ...] = (
    ("loss", loss_text),
    ("metric", lambda a: "" if a.metric is None else f"{a.metric:.4g}"),
    ("gap", lambda a: "" if a.gap is None or a.id == "data_parallel" else signed_percent(a.gap)),
    ("time", lambda a: "" if a.hours is None else duration(3600.0 * a.hours)),
    ("bytes a worker", lambda a: data(a.bytes_per_worker)),
    ("energy", lambda a: "" if a.kwh is None else f"{count(a.kwh)} kWh"),
    ("cost", lambda a: "" if a.cost is None else dollars(a.cost)),
    ("computing", lambda a: "" if a.utilisation is None else percent(a.utilisation)),
    ("to target", to_target),
)


def table_rows(result: LearningResult) -> tuple[list[str], list[list[str]]]:
    """(titles, rows) of the algorithms side by side; columns that say nothing are left out."""
    columns = [(name, of) for name, of in _COLUMNS if _tells(name, of, result)]
    titles = ["algorithm", *(result.metric if name == "metric" else name for name, _ in columns)]
    return titles, [[a.label, *(of(a) for _, of in columns)] for a in result.algorithms]


def _tells(name: str, of: Callable[[AlgorithmFigures], str], result: LearningResult) -> bool:
    if name == "to target":
        return bool(result.goal)
    return any(of(a) for a in result.algorithms)


_TURNS = re.compile(r"a doubled learning rate turns the order with (.+): a gap of ")


def verdict_lines(result: LearningResult) -> list[str]:
    """What the proxy cannot order, with reasons."""
    out = []
    for a in (one for one in result.algorithms if one.resolved is False):
        for reason in a.reasons:
            other = _TURNS.match(reason)
            if other is None:
                out.append(f"{a.label}: not resolved: {reason}")
            else:
                first, last = sorted((a.label, other[1]))
                out.append(f"{first} and {last} are too close to call: a doubled learning rate turns their order")
    return list(dict.fromkeys(out))


def law_lines(result: LearningResult) -> list[str]:
    """What a published law says at the target's size."""
    if not result.law:
        return []
    told = [
        f"{label}: loss {loss:.3f} at this size by {result.law['id']}" for label, loss in result.law["loss"].items()
    ]
    silent = [f"{label}: {result.law['id']} {why}" for label, why in result.law["outside"].items()]
    return [*told, *silent, *([f"{result.law['id']} is {result.law['source']}, fitted by its authors"] if told else [])]


def goal_line(result: LearningResult) -> str:
    """The target of the curves."""
    return ", ".join(f"{k} {'≤' if k == 'loss' else '≥'} {v:g}" for k, v in result.goal.items())


def link_rows(result: LearningResult) -> list[tuple[str, str, str]]:
    """(algorithm, link, bytes of all workers)."""
    return [(a.label, link, data(nbytes)) for a in result.algorithms for link, nbytes in a.bytes_by_link.items()]


def staleness_rows(result: LearningResult) -> list[tuple[str, str]]:
    """(algorithm, staleness) of those that have any."""
    return [
        (a.label, f"mean {a.staleness['mean']:.2f}, most {a.staleness['max']:g} server steps")
        for a in result.algorithms
        if a.staleness.get("max")
    ]


def drawn(result: LearningResult, across: Across, width: int = _ROOM) -> str:
    """Mean loss of every algorithm against a quantity, in characters, on lines of a width."""
    lines, wide = [], max(width - _BESIDE, _NARROWEST)
    for at, figures in enumerate(result.algorithms):
        own = [c for c in result.curves if c.algorithm == figures.label]
        if own:
            x, mean, _, _ = seed_band(own, across)
            lines.append((_MARKS[at % len(_MARKS)], figures.label, x, mean))
    kept = [(x, y) for _, _, x, y in lines if len(x)]
    if not kept:
        return ""
    right = max(float(np.nanmax(x)) for x, _ in kept) or 1.0
    low, high = min(float(y.min()) for _, y in kept), max(float(y[0]) for _, y in kept)
    log = low > 0 and high / low > 10.0
    place = np.log if log else np.asarray
    bottom, top = float(place(low)), float(place(high))
    grid = [[" "] * wide for _ in range(_HIGH)]
    for mark, _, x, y in lines:
        for a, b in zip(x, np.clip(y, low, high), strict=True):
            if np.isfinite(a):
                column = round(a / right * (wide - 1))
                row = round((top - float(place(b))) / ((top - bottom) or 1.0) * (_HIGH - 1))
                grid[row][column] = mark
    names = [f"{mark} {label}" for mark, label, _, _ in lines]
    ends = [f"{high:>9.4g} ┤", *["          │"] * (_HIGH - 2), f"{low:>9.4g} ┤"]
    body = [end + "".join(row).rstrip() for end, row in zip(ends, grid, strict=True)]
    foot = f"{'0':>12}{across.title.split(',')[0]:^{wide - 13}}{three(right):>12}"
    title = "loss" + (", log scale" if log else "")
    head, line = list[str](), title
    for name in names:
        if len(line) + 3 + len(name) > width - 2:
            head, line = [*head, line], name
        else:
            line += f"   {name}"
    return "\n".join([*head, line, *body, "          └" + "─" * wide, foot])
