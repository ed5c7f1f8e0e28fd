"""Tenants and a changing number of instances, on the terminal."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from windtunnel.quantities import count, percent
from windtunnel.report.html_shell import card
from windtunnel.report.serving.text import short

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.serving.results.serving_result import ServingResult


def parts(result: ServingResult) -> list[RenderableType]:
    """What there is of them, a blank line before each."""
    out: list[RenderableType] = []
    if result.tenants:
        out += [Text(), _tenants(result.tenants)]
        if result.fairness:
            out.append(Text(fairness_text(result.fairness), style="dim"))
    if result.scaling:
        out += [Text(), Text(scaling_text(result))]
    return out


def _columns(names: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", style="bold", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def fairness_text(fair: dict[str, float]) -> str:
    """Index and differences of service."""
    return (
        f"fairness: Jain's index {fair['jain_index']:.3f}; service difference within {fair['window_s']:g} s "
        f"{count(fair['service_difference_mean'])} weighted tokens on average, "
        f"{count(fair['service_difference_max'])} at most"
    )


def rows(tenants: dict[str, dict[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Names of columns, and a row a tenant, its name first."""
    shed = any(t["shed"] for t in tenants.values())
    names = ("requests", "service/s", "TTFT p50", "TTFT p99", "E2E p50", "objective", *(("shed",) if shed else ()))
    cells = [
        (
            name,
            f"{t['requests']:,}",
            count(t["service_per_s"]),
            short(t["ttft_s"]["p50"]),
            short(t["ttft_s"]["p99"]),
            short(t["e2e_s"]["p50"]),
            percent(t["slo_attainment"]),
            *((f"{t['shed']:,}",) if shed else ()),
        )
        for name, t in tenants.items()
    ]
    return names, cells


def _tenants(tenants: dict[str, dict[str, Any]]) -> Table:
    names, cells = rows(tenants)
    table = _columns(names)
    for row in cells:
        table.add_row(*row)
    return table


def html(result: ServingResult) -> str:
    """Cards of tenants and scaling; empty without."""
    out = ""
    if result.tenants:
        names, cells = rows(result.tenants)
        head = "<tr><th></th>" + "".join(f'<th class="n">{escape(name)}</th>' for name in names) + "</tr>"
        body = "".join(
            f"<tr><td>{escape(row[0])}</td>" + "".join(f'<td class="n">{escape(c)}</td>' for c in row[1:]) + "</tr>"
            for row in cells
        )
        hint = escape(fairness_text(result.fairness)) if result.fairness else ""
        out += card("Tenants", hint, f'<div class="wide"><table>{head}{body}</table></div>')
    if result.scaling:
        out += card("Scaling", "", f"<p>{escape(scaling_text(result).removeprefix('Scaling: '))}</p>")
    return out


def scaling_text(result: ServingResult) -> str:
    """How many there were, and what was held."""
    s = result.scaling
    if "devices_mean" in s:
        what = f"{s['devices_mean']:.3g} devices on average, {s['devices_min']} to {s['devices_max']} serving"
        begun = f"{len(s['growths'])} growths of up to {short(s['start_up_s'])}"
    else:
        what = f"{s['instances_mean']:.3g} instances on average, {s['instances_min']} to {s['instances_max']} serving"
        begun = f"{s['starts']} starts of {short(s['start_up_s'])}"
    return f"Scaling: {what}; {begun}; {s['device_hours']:.3g} device-hours"
