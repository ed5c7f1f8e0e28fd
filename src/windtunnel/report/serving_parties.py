"""Tenants and a changing number of instances, on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from windtunnel.report.quantities import count, percent
from windtunnel.report.serving_text import short

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.serving.results import ServingResult


def parts(result: ServingResult) -> list[RenderableType]:
    """What there is of them, a blank line before each."""
    out: list[RenderableType] = []
    if result.tenants:
        out += [Text(), _tenants(result.tenants)]
        fair = result.fairness
        if fair:
            line = (
                f"fairness: Jain's index {fair['jain_index']:.3f}; service difference within "
                f"{fair['window_s']:g} s {count(fair['service_difference_mean'])} weighted tokens on average, "
                f"{count(fair['service_difference_max'])} at most"
            )
            out.append(Text(line, style="dim"))
    if result.scaling:
        out += [Text(), Text(scaling_text(result))]
    return out


def _columns(names: tuple[str, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", style="bold", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _tenants(tenants: dict[str, dict[str, Any]]) -> Table:
    shed = any(t["shed"] for t in tenants.values())
    names = ("requests", "service/s", "TTFT p50", "TTFT p99", "E2E p50", "objective")
    table = _columns((*names, "shed") if shed else names)
    for name, t in tenants.items():
        cells = [
            f"{t['requests']:,}", count(t["service_per_s"]), short(t["ttft_s"]["p50"]), short(t["ttft_s"]["p99"]),
            short(t["e2e_s"]["p50"]), percent(t["slo_attainment"]),
        ]  # fmt: skip
        table.add_row(name, *cells, *([f"{t['shed']:,}"] if shed else []))
    return table


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
