"""A fit to a server's results as text and plain data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from windtunnel.calibration.server_fit import kind_of
from windtunnel.calibration.text import meaning, table
from windtunnel.quantities import percent, seconds, signed_percent

if TYPE_CHECKING:
    from rich.console import RenderableType

    from windtunnel.calibration.server_fit import FigureErrors, ServerFit

_SHOWN = 60
_KINDS = {"ttft": "TTFT", "steps": "TPOT, ITL, E2E", "rate": "throughput"}


def server_summary(found: ServerFit) -> RenderableType:
    """What was fitted, what was not and why, and every figure before, after and left out."""
    from rich.console import Group
    from rich.text import Text

    loads = len({f.load for f in found.figures})
    parts: list[RenderableType] = [
        Text(f"{found.device.name}: {loads} load{'s' if loads > 1 else ''}, {len(found.figures)} figures", style="bold")
    ]
    if found.fitted:
        moved = table("coefficient", "catalogue", "fitted", "80 % interval", "what it is")
        for f in found.fitted:
            low, high = (_shown(f.name, value) for value in f.interval)
            moved.add_row(f.name, _shown(f.name, f.prior), _shown(f.name, f.value), f"{low} … {high}", meaning(f.name))
        parts.append(moved)
    else:
        parts.append(Text("these loads tell no coefficient: all keep the catalogue's values"))
    for name, other in found.confounded.items():
        parts.append(Text(f"{name}: not told apart from {other} by these loads; it keeps the catalogue's value"))
    if found.weak:
        parts.append(Text(f"these loads depend too little on {', '.join(found.weak)}: the catalogue's values stay"))
    if found.silent:
        parts.append(Text(f"no load depends on {', '.join(found.silent)}"))
    rows = table("load", "figure", "measured", "before", "after", "left out")
    for one in found.figures[:_SHOWN]:
        errors = (_signed(one, which) for which in ("before", "after", "left_out"))
        rows.add_row(one.load, one.name, _measured(one), *errors)
    parts += [Text(""), rows]
    if len(found.figures) > _SHOWN:
        parts.append(Text(f"and {len(found.figures) - _SHOWN} more (--json has all)", style="dim"))
    gained = table("mean error of", "before", "after", "each load by a fit to the others")
    for kind, words in _KINDS.items():
        if any(kind_of(f.name) == kind for f in found.figures):
            errors = (_percent(found.mean_error(which, kind)) for which in ("before", "after", "left_out"))
            gained.add_row(words, *errors)
    parts += [Text(""), gained]
    parts += [Text(f"warning: {line}", style="yellow") for line in found.warnings]
    return Group(*parts)


def _shown(name: str, value: float) -> str:
    return seconds(value) if name.endswith("_s") else f"{value:.3g}"


def _measured(one: FigureErrors) -> str:
    return f"{one.measured:,.4g} /s" if kind_of(one.name) == "rate" else seconds(one.measured)


def _signed(one: FigureErrors, which: str) -> str:
    error = one.error(which)
    return "" if math.isnan(error) else signed_percent(error)


def _percent(value: float) -> str:
    return "" if math.isnan(value) else percent(value)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def server_dict(found: ServerFit) -> dict[str, Any]:
    """Plain data for `--json`."""
    whichs = ("before", "after", "left_out")
    return {
        "device": found.device.model_dump(mode="json", exclude_none=True),
        "fitted": {
            f.name: {
                "prior": f.prior,
                "prior_deviation": f.prior_deviation,
                "value": f.value,
                "deviation": f.deviation,
                "low": f.interval[0],
                "high": f.interval[1],
                "level": 0.8,
            }
            for f in found.fitted
        },
        "not_told_apart": found.confounded,
        "too_weak": list(found.weak),
        "not_informed": list(found.silent),
        "mean_error": {
            kind: {which: _number(found.mean_error(which, kind)) for which in whichs}
            for kind in _KINDS
            if any(kind_of(f.name) == kind for f in found.figures)
        },
        "figures": [
            {"load": f.load, "name": f.name, "measured": f.measured}
            | {which: getattr(f, which) for which in whichs}
            | {f"{which}_error": _number(f.error(which)) for which in whichs}
            for f in found.figures
        ],
        "warnings": list(found.warnings),
    }
