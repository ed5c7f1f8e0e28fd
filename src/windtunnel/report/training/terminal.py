"""A training result on the terminal: what an engineer wants to see first, on one screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import assumed_text, count, gib, percent, seconds, signed_percent
from windtunnel.report.training.documents import document_lines
from windtunnel.report.training.one_line import (
    band_text,
    fit_line,
    next_lines,
    plan_line,
    power_line,
    workload_line,
)
from windtunnel.report.training.phases import COLUMNS, NOTE, phase_rows
from windtunnel.training.results.colours import colour, memory_colour
from windtunnel.training.results.figures import ordered_breakdown
from windtunnel.training.results.grades import grade_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.training.results.training_result import TrainingResult

_BAR = 28


@dataclass(frozen=True, slots=True)
class Published:
    """A step time somebody else measured (or a range of them), to stand beside ours. Seconds."""

    low_s: float
    high_s: float

    @property
    def middle_s(self) -> float:
        """Middle of the range."""
        return 0.5 * (self.low_s + self.high_s)

    def __str__(self) -> str:
        if self.low_s == self.high_s:
            return f"{self.low_s:g} s"
        return f"{self.low_s:g} to {self.high_s:g} s"


def summary(result: TrainingResult, *, published: Published | None = None, interval: bool = True) -> RenderableType:
    """Everything about one prediction, as something `rich` prints.

    Args:
        result: the prediction.
        published: a measured step time to compare with.
        interval: show the interval.
    """
    parts: list[RenderableType] = [_head(result), Text(), _figures(result, published, interval=interval)]
    parts += [_section("Where the time goes", "the device that finishes last"), _breakdown(result)]
    if result.memory.at_peak:
        where = f"stage {result.memory.stage}, allocated"
        parts += [_section("Memory at the peak", where), _memory(result)]
    if result.sensitivities:
        parts += [_section("What 10 % more would buy", "change of step time"), _sensitivities(result)]
    if result.run:
        parts += [_section("Phases of the run", NOTE), _phases(result)]
    if result.lengths:
        parts += [_section("Documents", "of the simulated batch"), _documents(result)]
    if result.groups:
        parts += [_section("Groups", "busy: until the last pass of a group ends"), _groups(result)]
    if len(result.stages) > 1:
        parts += [_section("Stages", ""), _stages(result)]
    if result.assumed:
        parts += [_section("Assumed", "what the scenario leaves open"), _assumed(result)]
    if result.warnings:
        parts.append(Text())
        parts += [Text(f"warning: {line}", style="yellow") for line in result.warnings]
    if result.citations:
        parts.append(_section("Methods used", ""))
        parts += [Padding(Text(line, style="dim"), (0, 0, 0, 2)) for line in result.citations]
    return Group(*parts)


def _head(result: TrainingResult) -> RenderableType:
    title = Text(result.scenario_name or "training step", style="bold")
    title.append(f"   windtunnel {result.version}, simulated in {seconds(result.simulated_in_s)}", style="dim")
    lines = [title, Text(workload_line(result)), Text(plan_line(result.plan))]
    return Group(*lines)


def _section(title: str, note: str) -> RenderableType:
    text = Text(f"\n{title}", style="bold")
    if note:
        text.append(f"  {note}", style="dim not bold")
    return text


def figure_grid() -> Table:
    """An empty table of names and figures."""
    return Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)


def _figures(result: TrainingResult, published: Published | None, *, interval: bool) -> RenderableType:
    grid = figure_grid()
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column()
    band = result.interval
    note = ""
    if interval:
        note = f"{100 * band.level:.0f} % interval {seconds(band.low)} to {seconds(band.high)} ({band.grade})"
    grid.add_row("Mean step" if result.run else "Step time", seconds(result.step_time_s), note)
    if interval and (told := next_lines(result.measure_next)) is not None:
        grid.add_row("Measure next", "", f"{told[0]}: {told[1]}")
    if published is not None:
        grid.add_row("Published", str(published), _comparison(result, published))
    grid.add_row(
        "Throughput", f"{count(result.tokens_per_s)} tokens/s", f"{count(result.tokens_per_s_per_device)} per device"
    )
    grid.add_row(
        "MFU",
        percent(result.mfu),
        f"{result.model_tflops_per_device:,.0f} TFLOP/s per device; "
        f"HFU {percent(result.hfu)}, {result.hardware_tflops_per_device:,.0f} TFLOP/s as run",
    )
    style = "green" if result.memory_fits else "bold red"
    grid.add_row(
        "Memory",
        f"{gib(result.peak_memory_reserved_bytes)} of {gib(result.memory.capacity_bytes)}",
        Text(fit_line(result), style=style),
    )
    power = power_line(result)
    if power:
        grid.add_row("Power", f"{result.mean_power_w:,.0f} W per device", power)
    grid.add_row("Bound by", Text(result.bound_by, style="default"), "")
    if not result.grades:
        return grid
    return Group(grid, Text.assemble(("Grades      ", "bold"), (grade_line(result.grades), "dim")))


def _comparison(result: TrainingResult, published: Published) -> Text:
    if published.low_s <= result.step_time_s <= published.high_s:
        return Text("inside the published range", style="green")
    error = result.step_time_s / published.middle_s - 1
    inside = result.interval.low <= published.middle_s <= result.interval.high
    where = "inside our interval" if inside else "outside our interval"
    direction = "longer" if error > 0 else "shorter"
    return Text(f"predicted {100 * abs(error):.1f} % {direction}, {where}", style="green" if inside else "yellow")


def bar(share: float, width: int = _BAR) -> str:
    """A bar of eighths of a character. `share` of the width, 0 to 1."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def _breakdown(result: TrainingResult) -> RenderableType:
    items = ordered_breakdown(result)
    widest = max((value for _, value in items), default=1.0)
    table = _indented()
    for name, value in items:
        table.add_row(
            name,
            seconds(value),
            percent(value / result.step_time_s),
            Text(bar(value / widest), style=colour(name)),
        )
    total = sum(result.breakdown.values())
    table.add_section()
    table.add_row("step", seconds(total), percent(total / result.step_time_s), "", style="bold")
    return Padding(table, (0, 0, 0, 2))


def _memory(result: TrainingResult) -> RenderableType:
    memory = result.memory
    table = _indented()
    capacity = memory.capacity_bytes
    for kind, size in sorted(memory.at_peak.items(), key=lambda item: -item[1]):
        if size <= 0:
            continue
        table.add_row(kind, gib(size), percent(size / capacity), Text(bar(size / capacity), style=memory_colour(kind)))
    table.add_section()
    for name, size, band in (
        ("allocated", memory.peak_allocated_bytes, memory.allocated_interval),
        ("reserved", memory.peak_reserved_bytes, memory.reserved_interval),
    ):
        table.add_row(name, gib(size), percent(size / capacity), band_text(band))
    for name, size, room in memory.elsewhere:
        table.add_row(name, gib(size), percent(size / room), "")
    table.add_row("capacity", gib(capacity), "", "", style="bold")
    return Padding(table, (0, 0, 0, 2))


def _indented() -> Table:
    table = Table(box=box.SIMPLE, show_header=False, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(min_width=24, no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    return table


def _sensitivities(result: TrainingResult) -> RenderableType:
    grid = figure_grid()
    grid.add_column(min_width=24, no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    most = max((abs(v) for v in result.sensitivities.values()), default=0.0) or 1.0
    for name, change in sorted(result.sensitivities.items(), key=lambda item: item[1]):
        style = "green" if change < 0 else "red" if change > 0 else "dim"
        text = signed_percent(change, 2) if abs(change) >= 5e-5 else "none"
        grid.add_row(name, Text(text, style=style), Text(bar(abs(change) / most), style=style))
    return Padding(grid, (0, 0, 0, 2))


def _documents(result: TrainingResult) -> RenderableType:
    grid = figure_grid()
    for what, figure in document_lines(result.lengths):
        grid.add_row(what, figure)
    return Padding(grid, (0, 0, 0, 2))


def _phases(result: TrainingResult) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in (COLUMNS[0], COLUMNS[-1]) else "right")
    for row in phase_rows(result):
        table.add_row(*row)
    return Padding(table, (0, 0, 0, 2))


def _stages(result: TrainingResult) -> RenderableType:
    columns = list(dict.fromkeys(key for stage in result.stages for key in stage))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for key in columns:
        table.add_column(_heading(key), justify="right", no_wrap=True)
    shown = result.stages if len(result.stages) <= 16 else (*result.stages[:8], *result.stages[-4:])
    for row, stage in enumerate(shown):
        if len(shown) < len(result.stages) and row == 8:
            table.add_row(*("…" for _ in columns))
        table.add_row(*(_cell(key, stage.get(key)) for key in columns))
    return Padding(table, (0, 0, 0, 2))


def _heading(key: str) -> str:
    for ending in ("_s", "_bytes"):
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def _cell(key: str, value: object) -> str:
    if isinstance(value, float) and key.endswith("_s"):
        return seconds(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return gib(value) if "bytes" in key or "memory" in key else count(value)
    if isinstance(value, (list, tuple)):
        return "+".join(str(v) for v in value)
    return "" if value is None else str(value)


def _assumed(result: TrainingResult) -> RenderableType:
    grid = figure_grid()
    grid.add_column(no_wrap=True)
    grid.add_column(style="cyan")
    grid.add_column(style="dim")
    for item in result.assumed:
        grid.add_row(item.field, assumed_text(item.field, item.value), item.why)
    return Padding(grid, (0, 0, 0, 2))


def _groups(result: TrainingResult) -> RenderableType:
    """Device groups of a heterogeneous cluster: what each runs, how long, and its memory."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group")
    for name in ("replicas", "micro-batches each", "stages", "busy", "reserved", "of"):
        table.add_column(name, justify="right")
    for group in result.groups:
        fits = "" if group["memory_fits"] else "red"
        table.add_row(
            group["cluster"],
            f"{group['replicas']:,}",
            f"{group['micro_batches']:,}",
            f"{group['stages']:,}",
            seconds(group["busy_s"]),
            Text(gib(group["peak_memory_reserved_bytes"]), style=fits),
            gib(group["memory_capacity_bytes"]),
        )
    return table
