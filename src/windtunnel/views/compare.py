"""What `windtunnel compare` shows of two training steps: figures, what differs, and the way from one to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.quantities import (
    count,
    gib,
    percent,
    seconds,
    shown_value,
    signed_gib,
    signed_number,
    signed_percent,
    signed_seconds,
)
from windtunnel.training.comparison import without_crumbs
from windtunnel.training.results.one_line import fit_line, fit_tone, plan_line, workload_line
from windtunnel.views.view import Column, Section, Table, Text, Tile, Tone, View, Words, sections, table

if TYPE_CHECKING:
    from windtunnel.training.comparison import Comparison
    from windtunnel.training.results.training_result import TrainingResult

_WHOLE = "#607d8b"
_LEAST = 1 / 224
"""Smallest share of a bar that is seen: an eighth of a character."""


def view(comparison: Comparison) -> View:
    """From A to B."""
    a, b = comparison.a, comparison.b
    change = 100 * (b.step_time_s / a.step_time_s - 1)
    lead: list[Words] = [f"B takes {abs(change):.1f} % {'longer' if change > 0 else 'less time'} than A"]
    if not change:
        lead = ["A and B take the same time"]
    elif p := comparison.paired:
        band = (
            f"step time of B against A {_ratio(p.low)} to {_ratio(p.high)} ({100 * p.level:.0f} % interval, {p.grade})"
        )
        lead += [Text(f"{p.verdict[0].upper()}{p.verdict[1:]}; {band}", strong=True), Text(p.basis, "dim")]
    same = a.scenario_name == b.scenario_name
    changes = comparison.scenario | {f"plan.{k}": v for k, v in comparison.chosen.items()}
    differing = [
        (Text(field, code=True), Text(shown_value(before), "dim"), shown_value(after))
        for field, (before, after) in changes.items()
    ]
    sizes = [(kind, Text(signed_gib(delta), _tone(delta))) for kind, delta in comparison.bytes_by_kind.items()]
    return View(
        title=f"{a.scenario_name} against {'itself ' if same else ''}{comparison.name_of_b}",
        lead=tuple(lead),
        tiles=(_tile("A", a), _tile("B", b)),
        sections=sections(
            Section("Figures", (_figures(comparison),)),
            Section("What differs", (table(("field", "A", "B"), differing),)),
            Section(
                "From A to B", (waterfall("A", a.step_time_s, comparison.seconds_by_class, "B"),), "by class of time"
            ),
            Section("Memory at the peak", (table(("", ""), sizes, numeric=(1,)),), "B − A"),
        ),
    )


def _tile(name: str, result: TrainingResult) -> Tile:
    fit = Text(
        f"{gib(result.peak_memory_reserved_bytes)}: {fit_line(result)}",
        fit_tone(result.memory.fit_probability, fits=result.memory_fits),
    )
    notes = (result.scenario_name, workload_line(result), plan_line(result.plan), fit)
    return Tile(name, seconds(result.step_time_s), tuple(note for note in notes if note))


def _figures(comparison: Comparison) -> Table:
    a, b = comparison.a, comparison.b
    rates = (a.tokens_per_s_per_device, b.tokens_per_s_per_device)
    sizes = (a.peak_memory_reserved_bytes, b.peak_memory_reserved_bytes)
    rows = [
        ("step time", seconds(a.step_time_s), seconds(b.step_time_s), _ratio(b.step_time_s / a.step_time_s)),
        ("tokens/s per device", *map(count, rates), _ratio(rates[1] / rates[0])),
        ("MFU", percent(a.mfu), percent(b.mfu), f"{signed_number(100 * (b.mfu - a.mfu))} points"),
        ("memory reserved", *map(gib, sizes), signed_gib(sizes[1] - sizes[0])),
        ("devices", f"{a.num_devices:,}", f"{b.num_devices:,}", _ratio(b.num_devices / a.num_devices)),
    ]
    return table(("", f"A  {a.scenario_name}", f"B  {comparison.name_of_b}", "B against A"), rows, numeric=(1, 2, 3))


def waterfall(first: str, seconds_from: float, by_class: dict[str, float], last: str) -> Table:
    """Seconds by class of time on the way from one step time to another, from zero, each bar where the one before ends.

    Args:
        first: name of the first step time.
        seconds_from: the first step time.
        by_class: class of time → what it adds; sums to the difference.
        last: name of the second step time.
    """
    to = seconds_from + sum(by_class.values())
    shown = without_crumbs(by_class, 1e-3 * max(seconds_from, to))
    levels = [seconds_from]
    for delta in shown.values():
        levels.append(levels[-1] + delta)
    span = max(levels)

    def bar(begin: float, end: float, tone: str) -> Text:
        return Text("", start=begin / span, share=max((end - begin) / span, _LEAST), colour=tone)

    rows: list[tuple[Words, ...]] = [(first, seconds(seconds_from), bar(0.0, seconds_from, _WHOLE))]
    for at, (name, delta) in zip(levels, shown.items(), strict=False):
        ends = sorted((at, at + delta))
        drawn = bar(ends[0], ends[1], "#c0392b" if delta > 0 else "#2e8b57")
        rows.append((name, Text(signed_seconds(delta), _tone(delta)), drawn))
    rows.append((Text(last, strong=True), Text(seconds(to), strong=True), bar(0.0, to, _WHOLE)))
    return Table((Column(), Column(numeric=True), Column(drop=1)), tuple(rows))


def _tone(delta: float) -> Tone:
    return "bad" if delta > 0 else "good"


def _ratio(value: float) -> str:
    return signed_percent(value - 1)
