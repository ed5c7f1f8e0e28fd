"""A training result in the output cell of a notebook: its figures in a table, and where the time goes."""

from __future__ import annotations

from typing import Any

from windtunnel.charts.page import figures_table, in_notebook
from windtunnel.quantities import gib, seconds
from windtunnel.training.results.charts import breakdown_chart


def figures(result: Any) -> list[tuple[str, str]]:
    """(name, figure with its unit) of what a reader asks first."""
    band, memory = result.interval, result.memory
    fits = "fits" if result.memory_fits else "does not fit"
    reserved = f"{gib(memory.peak_reserved_bytes)} of {gib(memory.capacity_bytes)}, {fits}"
    interval = f"{100 * band.level:.0f} % interval {seconds(band.low)} to {seconds(band.high)}, {band.grade}"
    rate = f"{result.tokens_per_s_per_device:,.0f} tokens/s per device, {result.tokens_per_s:,.0f} on all"
    return [
        ("step time", seconds(result.step_time_s)),
        ("", interval),
        ("throughput", f"{rate} {result.num_devices:,}"),
        ("MFU", f"{100 * result.mfu:.1f} % ({result.model_tflops_per_device:,.0f} TFLOP/s per device)"),
        ("memory reserved", reserved),
        ("bound by", result.bound_by),
    ]


def html(result: Any) -> str:
    """Table and figure as HTML."""
    title = result.scenario_name or "training step"
    return in_notebook(figures_table(title, figures(result)) + breakdown_chart(result).html("notebook"))


def line(result: Any) -> str:
    """The result in a line."""
    own = dict(figures(result))
    name = result.scenario_name or "training step"
    return f"<{name}: step {own['step time']}, MFU {100 * result.mfu:.1f} %, {own['memory reserved']}>"
