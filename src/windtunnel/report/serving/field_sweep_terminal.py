"""A sweep of a field on the terminal: one row a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from windtunnel.quantities import percent, seconds
from windtunnel.report.serving.text import deployment_line, objective_text, short, slo_of, traffic_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.serving.sweeps.field_sweep import FieldSweep


def field_summary(sweep: FieldSweep) -> RenderableType:
    """Everything about one sweep, as something `rich` prints."""
    head = Text(sweep.scenario_name, style="bold")
    head.append(f"   {len(sweep.points)} runs in {seconds(sweep.elapsed_s)}", style="dim")
    parts: list[RenderableType] = [head]
    first = next((p.result for p in sweep.points if p.result is not None), None)
    if first is not None:
        parts += [Text(deployment_line(first)), Text(traffic_line(first))]
        if text := objective_text(slo_of(first)):
            parts.append(Text(f"objective: {text}"))
    parts += [Text(), _table(sweep)]
    for p in sweep.points:
        if p.result is None:
            parts.append(Padding(Text(f"{p.value}: {p.reason}", style="yellow"), (0, 0, 0, 2)))
    if sweep.best is not None:
        parts.append(Text(f"\nHighest goodput within the objective: {sweep.field} = {sweep.best.value}"))
    return Group(*parts)


def _table(sweep: FieldSweep) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    names = ("TTFT p50", "p99", "TPOT p50", "p99", "tokens/s a device", "a user", "cache", "in time", "goodput", "")
    table.add_column(sweep.field.rpartition(".")[2], style="bold", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for p in sweep.points:
        r = p.result
        if r is None:
            table.add_row(p.value, *["–"] * (len(names) - 1), "cannot run")
            continue
        word = "saturated" if r.saturated else "best" if p is sweep.best else ""
        table.add_row(
            p.value,
            short(r.ttft_s.p50),
            short(r.ttft_s.p99),
            short(r.tpot_s.p50),
            short(r.tpot_s.p99),
            f"{r.output_tokens_per_s_per_device:,.4g}",
            f"{r.output_tokens_per_s_per_user:,.4g}",
            percent(r.kv_cache_usage_max),
            percent(r.slo_attainment),
            f"{r.goodput_requests_per_s:,.4g}/s",
            word,
        )
    return table
