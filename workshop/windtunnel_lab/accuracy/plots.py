"""Residual plots as small SVG files: error against size of the model and number of devices, a colour a kind of run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from windtunnel.training.uncertainty.comparable_runs import Residual
from windtunnel_lab.accuracy.out_of_sample import Judged

_COLOURS = (
    "#1b6ca8",
    "#d1495b",
    "#3c9d5d",
    "#e0a030",
    "#7a5195",
    "#4a4a4a",
    "#2ab0b8",
    "#9c6644",
    "#e377c2",
    "#8f9b1e",
    "#0b3d59",
    "#f4a582",
    "#7fbf7b",
    "#b2182b",
)
_WIDTH, _HEIGHT, _LEFT, _TOP = 330, 210, 44, 26
_LIMIT = 0.6
"""Errors beyond are drawn at the edge."""
_TICKS = (-0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5)


def parameters(residual: Residual) -> float:
    """Rough size of the model for an axis: 12 × layers × width², experts not counted."""
    hidden, layers = (float(x) for x in residual.subject.signature.split("x")[:2])
    return 12.0 * layers * hidden * hidden


def residual_plot(title: str, members: Sequence[Judged]) -> str:
    """Two panels side by side: error against size, and against devices."""
    kinds = sorted({_kind(j) for j in members})
    colour = {kind: _COLOURS[i % len(_COLOURS)] for i, kind in enumerate(kinds)}
    rows = -(-len(kinds) // 2)
    height = _TOP + _HEIGHT + 40 + 15 * rows
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * (_WIDTH + _LEFT) + 20} {height}" '
        'font-family="sans-serif" font-size="10.5">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{_LEFT}" y="16" font-size="13" font-weight="bold">{escape(title)}</text>',
    ]
    parts += _panel(
        members, colour, _LEFT, "dense part of the model, parameters", [parameters(j.residual) for j in members]
    )
    right = 2 * _LEFT + _WIDTH + 10
    parts += _panel(members, colour, right, "devices", [float(j.residual.subject.devices) for j in members])
    for i, kind in enumerate(kinds):
        x, y = _LEFT + (i % 2) * (_WIDTH + _LEFT), _TOP + _HEIGHT + 46 + 15 * (i // 2)
        n = sum(_kind(j) == kind for j in members)
        parts.append(f'<circle cx="{x + 4}" cy="{y - 4}" r="4" fill="{colour[kind]}"/>')
        parts.append(f'<text x="{x + 13}" y="{y}">{escape(kind)} ({n})</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _kind(judged: Judged) -> str:
    s = judged.residual.subject
    return f"{judged.residual.family}, {s.software} on {s.device}{', experts' if s.mixture else ''}"


def _panel(
    members: Sequence[Judged], colour: dict[str, str], left: float, label: str, values: Sequence[float]
) -> list[str]:
    low, high = math.log10(min(values)), math.log10(max(values))
    room = 0.06 * (high - low) or 0.5
    low, high = low - room, high + room

    def at(value: float, error: float) -> tuple[float, float]:
        x = left + _WIDTH * (math.log10(value) - low) / (high - low)
        held = max(-_LIMIT, min(_LIMIT, error))
        return x, _TOP + _HEIGHT * (0.5 - held / (2 * _LIMIT))

    out = []
    for tick in _TICKS:
        y = at(values[0], tick)[1]
        stroke = "#444" if tick == 0 else "#ddd"
        out.append(f'<path d="M{left} {y:.1f}h{_WIDTH}" stroke="{stroke}" stroke-width="{1 if tick else 1.2}"/>')
        out.append(f'<text x="{left - 4}" y="{y + 3.5:.1f}" text-anchor="end">{100 * tick:+.0f}</text>')
    top = at(values[0], 0.1)[1]
    out.insert(
        0, f'<rect x="{left}" y="{top:.1f}" width="{_WIDTH}" height="{_HEIGHT * 0.1 / _LIMIT:.1f}" fill="#f1f6ee"/>'
    )
    for text, value in _marks(low, high):
        x = at(value, 0)[0]
        out.append(f'<text x="{x:.1f}" y="{_TOP + _HEIGHT + 14}" text-anchor="middle">{text}</text>')
    out.append(
        f'<text x="{left + _WIDTH / 2}" y="{_TOP + _HEIGHT + 28}" text-anchor="middle" fill="#555">'
        f"error of step time in % against {label}</text>"
    )
    for kind, stroke in colour.items():  # points of one colour are one path of dots
        dots = [at(v, j.error) for j, v in zip(members, values, strict=True) if _kind(j) == kind]
        marks = "".join(f"M{x:.0f} {y:.1f}h0" for x, y in dots)
        out.append(f'<path d="{marks}" stroke="{stroke}" stroke-opacity=".6" stroke-width="5" stroke-linecap="round"/>')
    return out


def _marks(low: float, high: float) -> list[tuple[str, float]]:
    """Labelled values of a logarithmic axis: powers of ten, or of two where less than three of those fit."""
    tens = [10.0**k for k in range(math.ceil(low), math.floor(high) + 1)]
    if len(tens) < 3:
        step = max(1, round((high - low) / math.log10(2) / 6))
        tens = [2.0**k for k in range(math.ceil(low / math.log10(2)), math.floor(high / math.log10(2)) + 1, step)]
    return [(_short(v), v) for v in tens]


def _short(value: float) -> str:
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            scale = 1e3 if unit == "k" else size
            return f"{value / scale:.3g} {unit}"
    return f"{value:g}"
