"""The difference between two predictions as one HTML file."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.quantities import count, gib, percent, seconds, signed_percent
from windtunnel.report.html_shell import card, document, plot, table
from windtunnel.report.training.compare import Comparison, shown_value, signed_gib
from windtunnel.report.training.one_line import fit_line, plan_line, workload_line

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult


def write(comparison: Comparison, path: str | Path) -> Path:
    """Write the comparison and return its path."""
    target = Path(path)
    target.write_text(render(comparison), encoding="utf-8")
    return target


def render(comparison: Comparison) -> str:
    """The whole document."""
    a, b = comparison.a, comparison.b
    change = 100 * (b.step_time_s / a.step_time_s - 1)
    verdict = f"B takes {abs(change):.1f} % " + ("longer than A" if change > 0 else "less time than A")
    sure = ""
    if p := comparison.paired:
        band = f"{signed_percent(p.low - 1)} to {signed_percent(p.high - 1)}"
        how = f"{escape(p.grade)}; {escape(p.basis)}"
        sure = f'<p class="sub">{escape(p.verdict)}; {100 * p.level:.0f} % band {band} ({how})</p>'
    head = (
        f"<header><h1>{escape(a.scenario_name)} against {escape(comparison.name_of_b)}</h1>"
        f'<p class="sub">{verdict}</p>{sure}</header>'
    )
    tiles = f'<div class="row pair">{_tile("A", a)}{_tile("B", b)}</div>'
    waterfall = card("From A to B", "seconds by class of time", plot(comparison.figure()))
    return document(
        f"{a.scenario_name} against {comparison.name_of_b}",
        [head, tiles, _changes(comparison), waterfall, _memory(comparison)],
    )


def _tile(name: str, result: TrainingResult) -> str:
    style = "good" if result.memory_fits else "bad"
    return (
        f'<div class="tile"><div class="label">{name} · {escape(result.scenario_name)}</div>'
        f'<div class="value">{seconds(result.step_time_s)}<small> MFU {percent(result.mfu)}, '
        f"{count(result.tokens_per_s_per_device)} tokens/s per device</small></div>"
        f'<div class="note">{escape(workload_line(result))}<br>{escape(plan_line(result.plan))}</div>'
        f'<div class="note {style}">{gib(result.peak_memory_reserved_bytes)}: {escape(fit_line(result))}</div></div>'
    )


def _changes(comparison: Comparison) -> str:
    changes = comparison.scenario | {f"plan.{k}": v for k, v in comparison.chosen.items()}
    if not changes:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(field)}</code></td><td>{escape(shown_value(before))}</td>"
        f"<td>{escape(shown_value(after))}</td></tr>"
        for field, (before, after) in changes.items()
    )
    return card("What differs", "", table("<tr><th>field</th><th>A</th><th>B</th></tr>", rows))


def _memory(comparison: Comparison) -> str:
    if not comparison.bytes_by_kind:
        return ""
    rows = "".join(
        f'<tr><td>{escape(kind)}</td><td class="n {"bad" if delta > 0 else "good"}">{signed_gib(delta)}</td></tr>'
        for kind, delta in comparison.bytes_by_kind.items()
    )
    return card("Memory at the peak", "B − A", f"<table>{rows}</table>")
