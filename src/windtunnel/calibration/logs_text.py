"""A fit to logs as text, plain data and a plot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from windtunnel.calibration.text import equal_line, meaning, seconds_axis, table
from windtunnel.charts.chart import Chart
from windtunnel.charts.colours import BLUE
from windtunnel.charts.forms import dots
from windtunnel.quantities import percent, seconds, signed_percent

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.calibration.logs_fit import FittedRow, LogFit

_SHOWN = 40


def _signed(row: FittedRow, which: str) -> str:
    error = row.error(which)
    return "" if math.isnan(error) else signed_percent(error)


def log_summary(found: LogFit) -> RenderableType:
    """What was fitted, every row before and after, and what the rows say nothing about."""
    from rich.console import Group
    from rich.text import Text

    fitted = table("coefficient", "catalogue", "fitted", "standard error", "what it is")
    for name, entry in found.moved.items():
        if name in found.together:
            continue
        fitted.add_row(
            name,
            _shown(name, found.priors[name].prior),
            _shown(name, entry.value),
            percent(entry.relative_error or 0.0),
            meaning(name),
        )
    rows = table("row", "measured", "before", "after", "left out")
    for row in found.rows[:_SHOWN]:
        rows.add_row(
            row.label, seconds(row.measured_s), *(_signed(row, which) for which in ("before", "after", "left_out"))
        )
    parts: list[RenderableType] = [Text(f"{found.device.name}: {len(found.rows)} rows", style="bold")]
    parts += [fitted] if len(found.moved) > len(found.together) else [Text("no coefficient is informed by itself")]
    if found.together:
        ranges = ", ".join(
            f"{name} {_shown(name, found.priors[name].prior)} → {_shown(name, found.moved[name].value)}"
            for name in found.together
        )
        parts.append(Text(f"moved, but not told apart by these rows: {ranges}"))
    if found.silent:
        parts.append(Text(f"not informed, the catalogue's value stays: {', '.join(found.silent)}"))
    parts += [Text(""), rows]
    if len(found.rows) > _SHOWN:
        parts.append(Text(f"and {len(found.rows) - _SHOWN} more (--json has all)", style="dim"))
    medians = [("before", found.median_error("before")), ("after", found.median_error("after"))]
    if found.rows[0].left_out_s is not None:
        medians.append(("each row by a fit to the others", found.median_error("left_out")))
    parts.append(Text(f"median error: {', '.join(f'{name} {percent(value)}' for name, value in medians)}"))
    memory = [row.memory[0] / row.memory[1] - 1.0 for row in found.rows if row.memory]
    if memory:
        worst = max(memory, key=abs)
        parts.append(Text(f"peak memory (nothing is fitted to it): worst row {signed_percent(worst)}"))
    parts += [Text(f"warning: {line}", style="yellow") for line in found.warnings]
    return Group(*parts)


def _shown(name: str, value: float) -> str:
    return seconds(value) if name.endswith("_s") else f"{value:.4g}"


def log_dict(found: LogFit) -> dict[str, Any]:
    """Plain data for `--json`."""
    medians = {which: found.median_error(which) for which in ("before", "after", "left_out")}
    return {
        "device": found.device.model_dump(mode="json", exclude_none=True),
        "fitted": {
            name: {
                "prior": found.priors[name].prior,
                "prior_width": found.priors[name].width,
                "value": e.value,
                "relative_error": e.relative_error,
                "told_apart": name not in found.together,
            }
            for name, e in found.moved.items()
        },
        "not_informed": list(found.silent),
        "median_error": {k: None if math.isnan(v) else v for k, v in medians.items()},
        "rows": [
            {
                "line": r.line,
                "label": r.label,
                "measured_s": r.measured_s,
                "before_s": r.before_s,
                "after_s": r.after_s,
                "left_out_s": r.left_out_s,
                "memory_bytes": list(r.memory) if r.memory else None,
            }
            for r in found.rows
        ],
        "warnings": list(found.warnings),
    }


def log_figure(found: LogFit) -> Chart:
    """Measured against predicted step times, before and after the fit."""
    measured = [row.measured_s for row in found.rows]
    predicted = [getattr(row, f"{which}_s") for which in ("before", "after") for row in found.rows]
    known = [value for value in predicted if math.isfinite(value) and value > 0] or measured
    layers = [equal_line(measured, known)]
    for which in ("before", "after"):
        rows = [row for row in found.rows if math.isfinite(getattr(row, f"{which}_s"))]
        told = [f"{row.label}, {which}: {_signed(row, which)}" for row in rows]
        y = [getattr(row, f"{which}_s") for row in rows]
        layers.append(dots([row.measured_s for row in rows], y, told, series=which))
    return Chart(
        title=f"{found.device.name}: step times before and after the fit",
        layers=tuple(layers),
        x=seconds_axis("measured", measured),
        y=seconds_axis("predicted", known),
        series={"before": "#ef6c00", "after": BLUE},
        height=480,
        heading=True,
    )
