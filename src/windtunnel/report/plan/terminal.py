"""A search's outcome on the terminal: the best plan, which to take, what came next and why, and the proof."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import gib, percent, seconds, signed_percent, signed_seconds
from windtunnel.report.plan.text import (
    best_row,
    best_words,
    cell_words,
    choice_words,
    cluster_words,
    field_text,
    flat,
    gap_words,
    instead_words,
    limit_words,
    margin_words,
    metric_words,
    plan_words,
    proof_words,
    quantity,
    resource_words,
    table_names,
    worse,
)
from windtunnel.report.plan.whole_run import HEAD, finalist_rows, run_line, run_proof_words
from windtunnel.report.training.terminal import bar
from windtunnel.training.comparison import without_crumbs
from windtunnel.training.results.one_line import next_lines

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.planner.analysis.explain_best import Why
    from windtunnel.planner.analysis.stability import Stability
    from windtunnel.planner.result import PlanResult, Ranked

_NARROW = 100
"""Columns of the terminal below which a table's own columns stand closer."""


def plan_summary(result: PlanResult, width: int = 120) -> RenderableType:
    """Everything about one search, as something `rich` prints.

    Args:
        result: the search.
        width: columns of the terminal.
    """
    lines: list[RenderableType] = [_head(result)]
    if not result.proof.complete:
        lines.append(Text(f"Stopped: this is the best so far; {gap_words(result)}", style="bold yellow"))
    lines += [Text(), *_best(result), Text(), *_table(result.frontier, result, width)]
    if result.finalists:
        lines += _finalists(result)
    if (margin := margin_words(result)) is not None:
        lines.append(Text(margin, style="dim"))
    if result.front:
        lines += [_title(f"Pareto front: no plan beats these in all of {', '.join(result.objectives)}")]
        lines += _table(result.front, result, width)
    if result.why is not None:
        lines += _why(result, result.why, width)
    else:
        lines += [_title("Least bound by axis"), *_axes(result.by_axis, width)]
    if result.stability is not None:
        lines += _stability(result.stability)
    lines += [_title("Proof"), *(_wrapped(text) for text in (*proof_words(result), *run_proof_words(result)))]
    for rule, number in result.excluded.items():
        lines.append(_wrapped(f"{number:,} axis combinations left out: {rule}", style="dim"))
    for warning in result.best.warnings:
        lines.append(Text(f"warning: {warning}", style="yellow"))
    return Group(*lines)


def _finalists(result: PlanResult) -> list[RenderableType]:
    """Plans whose runs were replicated."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(HEAD):
        table.add_column(name, justify="left" if i == 0 else "right")
    for cells in finalist_rows(result):
        table.add_row(*cells)
    return [_title("Whole runs of the finalists, in the same random numbers"), table]


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _wrapped(text: str, style: str = "") -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, 2), expand=False)


def _head(result: PlanResult) -> Text:
    head = Text(result.best.scenario_name, style="bold")
    done = f"{result.proof.candidates:,} plans, {result.proof.simulated:,} simulated, in {seconds(result.elapsed_s)}"
    head.append(f"   {done}", style="dim")
    return head


def _best(result: PlanResult) -> list[RenderableType]:
    """The best plan, the one to take, and the one as written."""
    best = result.best
    first = result.objectives[0]
    grid = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column()
    name = (
        "Fastest as simulated"
        if result.choice is not None
        else "Best"
        if first == "step_time"
        else f"Best {metric_words(first)}"
    )
    grid.add_row(name, seconds(best.step_time_s), best_words(result))
    band = best.interval
    level = f"{100 * band.level:.0f} % interval"
    grid.add_row("", "", f"{level} {seconds(band.low)} to {seconds(band.high)}, {band.grade}")
    if (told := next_lines(best.measure_next)) is not None:
        grid.add_row("Measure next", "", f"{told[0]}: {told[1]}")
    memory = f"{gib(best.peak_memory_reserved_bytes)} of {gib(best.memory.capacity_bytes)}"
    values = [f"MFU {percent(best.mfu)}", memory, *_values(best_row(result))]
    grid.add_row("", "", ", ".join(values))
    if run := run_line(result):
        grid.add_row("Whole run", "", run)
    if (choice := result.choice) is not None:
        if choice.same:
            grid.add_row("Recommended", "the same", choice_words(choice))
        else:
            extra = f", {signed_percent(choice.slower)}" if choice.slower >= 5e-4 else ""
            grid.add_row("Recommended", seconds(choice.step_time_s), plan_words(choice.plan) + extra)
            grid.add_row("", "", choice_words(choice))
    if result.written is not None:
        gain = result.gain or 0.0
        words = f"the best is {100 * gain:.1f} % shorter" if gain > 0 else "nothing in the space that fits is faster"
        if not result.written.memory_fits:
            words += "; as written it does not fit"
        own = f"{gib(result.written.peak_memory_reserved_bytes)}: {words}"
        grid.add_row("As written", seconds(result.written.step_time_s), own)
    for name, seconds_of in result.compared.items():
        took = "–" if seconds_of is None else seconds(seconds_of)
        grid.add_row("Instead", took, f"{name}: {instead_words(best, seconds_of)}")
    return [grid]


def _values(row: Ranked | None) -> list[str]:
    """Objectives and limited metrics other than the step time."""
    from windtunnel.planner.objectives import METRICS

    values = {} if row is None else row.values
    return [f"{metric_words(n)} {quantity(v, METRICS[n].unit)}" for n, v in values.items() if n != "step_time"]


def _table(rows: tuple[Ranked, ...], result: PlanResult, width: int) -> list[RenderableType]:
    from windtunnel.planner.objectives import METRICS

    if not rows:
        return []
    names, shared = table_names(rows)
    metrics = [n for n in dict.fromkeys(n for r in rows for n in r.values) if n != "step_time"]
    columns: dict[str, list[str]] = {n: [field_text(flat(r).get(n)) for r in rows] for n in names}
    columns["step"] = [seconds(r.step_time_s) for r in rows]
    columns["bound"] = [seconds(r.bound_s) for r in rows]
    columns["worse"] = [signed_percent(worse(r, result)) for r in rows]
    for n in metrics:
        columns[metric_words(n)] = [quantity(r.values[n], METRICS[n].unit) if n in r.values else "–" for r in rows]
    columns["memory"] = ["–" if r.reserved_bytes is None else gib(r.reserved_bytes) for r in rows]
    columns["fits"] = ["limit" if r.missed else {True: "yes", False: "no", None: "–"}[r.fits] for r in rows]
    # headings wrap, values do not: the least telling columns go until the rest fits
    least = {n: max(map(len, [*n.split(), *values])) for n, values in columns.items()}
    for name in ("bound", "worse", "step", "memory"):
        if sum(least.values()) + 2 * len(least) > width:
            least.pop(name)
    wide = width >= _NARROW
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0) if wide else (0, 1, 0, 0))
    for name, size in least.items():
        table.add_column(name, justify="right", min_width=size, max_width=None if wide else size)
    for i, r in enumerate(rows):
        best = r.fits and not r.missed and r.step_time_s == result.best.step_time_s
        table.add_row(*(columns[name][i] for name in least), style="bold" if best else "")
    same = plan_words(shared, [*shared])
    return [table, Text(f"the same in all: {same}", style="dim")] if same else [table]


def _why(result: PlanResult, why: Why, width: int) -> list[RenderableType]:
    out: list[RenderableType] = []
    other = why.runner_up
    if other is not None and why.runner_up_plan is not None:
        words = plan_words(why.runner_up_plan, [*why.runner_up_plan])
        first = result.objectives[0]
        more = f"{seconds(other.step_time_s)}, {signed_percent(other.step_time_s / result.best.step_time_s - 1)}"
        if first != "step_time":
            more += f" ({metric_words(first)} {100 * why.runner_up_worse:.1f} % worse)"
        out += [_title("Why not another layout"), _wrapped(f"The next is {words}: {more}.")]
        shown = without_crumbs(why.seconds_by_class, 1e-3 * result.best.step_time_s)
        most = max((abs(v) for v in shown.values()), default=1.0)
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        for name, delta in shown.items():
            style = "red" if delta > 0 else "green"
            table.add_row(name, Text(signed_seconds(delta), style=style), Text(bar(abs(delta) / most, 24), style=style))
        out.append(Padding(table, (0, 0, 0, 2), expand=False))
    words_by = {axis: {v: cell_words(c) for v, c in why.best_by(axis).items()} for axis in ("tp", "pp")}
    out += [_title("Best by axis (≥: a bound, not simulated)")]
    out += [_flow([f"{axis} {v}: {text}" for v, text in values.items()], width) for axis, values in words_by.items()]
    if why.clusters:
        items = [cluster_words(c, result.objectives[0]) for c in why.clusters]
        out += [_title(f"Best {metric_words(result.objectives[0])} by cluster"), _flow(items, width)]
    if why.limits:
        out.append(_title("What limits cost"))
        out += [_wrapped(f"{name} {text}") for name, text in map(limit_words, why.limits)]
    return out


def _axes(by_axis: dict[str, dict[str, float]], width: int) -> list[RenderableType]:
    return [
        _flow([f"{axis} {v}: {seconds(s)}" for v, s in sorted(values.items(), key=lambda kv: int(kv[0]))], width)
        for axis, values in by_axis.items()
    ]


def _flow(items: Iterable[str], width: int) -> Padding:
    """Short texts side by side, as many as a line takes, none broken."""
    lines = [""]
    for item in items:
        grown = f"{lines[-1]}   {item}" if lines[-1] else item
        if len(grown) > width - 2 and lines[-1]:
            lines.append(item)
        else:
            lines[-1] = grown
    return Padding(Text("\n".join(lines)), (0, 0, 0, 2), expand=False)


def _stability(told: Stability) -> list[RenderableType]:
    words = plan_words({k: v for k, v in told.layout.items() if k in ("tp", "pp", "cp", "ep", "dp")})
    ended = "" if told.complete else "; interrupted"
    out: list[RenderableType] = [_title(f"How far {words} stays the best ({told.searches} exact searches{ended})")]
    for resource in told.resources:
        name, lines = resource_words(resource)
        out.append(_wrapped(name))
        out += [Padding(Text(line), (0, 0, 0, 4), expand=False) for line in lines]
    return out
