"""Advice as one HTML file: what bounds the scenario, a chart of gains with their bands, and each suggestion in full."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.charts.chart import Axis, Chart
from windtunnel.charts.forms import Bar, Bars
from windtunnel.quantities import signed_gib
from windtunnel.report.advice.terminal import (
    GROUPS,
    SHOWN,
    bands_of,
    change_text,
    figure_text,
    gain_text,
    head_lines,
    lost_lines,
    moved_text,
    notes,
    other_figures,
    refused_lines,
    signed,
)
from windtunnel.report.html_shell import card, document, plot, table

if TYPE_CHECKING:
    from windtunnel.advice import Advice, Suggestion

_TONES = {"settings": "#607d8b", "suggestions": "#1565c0", "pairs": "#2e8b57", "unlike": "#e0862c"}
_NAMES = {
    "settings": "settings",
    "suggestions": "techniques",
    "pairs": "two together",
    "unlike": "not like for like",
}
_LONGEST = 46
"""Characters of a change beside its bar."""


def write(advice: Advice, path: str | Path) -> Path:
    """Write the advice and return its path."""
    target = Path(path)
    target.write_text(render(advice), encoding="utf-8")
    return target


def render(advice: Advice) -> str:
    """The whole document. Every text is escaped."""
    first, *rest = head_lines(advice)
    lines = "".join(f'<p class="sub">{escape(line)}</p>' for line in rest)
    parts = [f"<header><h1>Advice</h1><p>{escape(first)}</p>{lines}</header>"]
    if any(getattr(advice, name) for name, _ in GROUPS):
        band = f"gain of the objective against today; {bands_of(advice)}"
        parts.append(card("What gains", band, plot(figure(advice))))
    parts += [_group(advice, name, title) for name, title in GROUPS if getattr(advice, name)]
    for title, told in (
        ("No gain here", lost_lines(advice.lost, everything=True)),
        ("Could not be tried", refused_lines(advice.refused, everything=True)),
        ("Does not apply", [f"{name}: {why}" for name, why in advice.unfit.items()]),
    ):
        if told:
            parts.append(card(title, "", "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in told) + "</ul>"))
    return document(f"Advice for {advice.scenario_name}", parts)


def figure(advice: Advice) -> Chart:
    """Bars of gains with their bands, best at the top of each kind."""
    bars: list[Bar] = []
    for name, _ in GROUPS:
        for one in getattr(advice, name)[: SHOWN[name]]:
            told = f"{change_text(one)}\n{_NAMES[name]}; gain {gain_text(advice, one)}\n{moved_text(advice, one)}"
            label = _label(one, [bar.name for bar in bars])
            low, high = 100 * one.low, 100 * one.high
            band = {"low": low, "high": high} if one.level else {}
            bars.append(
                Bar(name=label, end=100 * one.gain, series=_NAMES[name], text=signed(one.gain), told=told, **band)
            )
    used = {bar.series for bar in bars}
    return Bars(
        title="Gain of each change",
        bars=tuple(bars),
        layers=(),
        series={name: _TONES[key] for key, name in _NAMES.items() if name in used},
        x=Axis(title=f"gain in {advice.objective.title}, %"),
        y=Axis(kind="band"),
        mark=0.0,
    )


def _label(one: Suggestion, taken: list[str]) -> str:
    """A short name that no other bar has."""
    text = change_text(one)
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"
    while text in taken:
        text += " "
    return text


def _group(advice: Advice, name: str, title: str) -> str:
    rows = "".join(_row(advice, one) for one in getattr(advice, name))
    others = [*dict.fromkeys(n for one in getattr(advice, name) for n in other_figures(advice, one))]
    names = (advice.objective.title, "gain (band)", *others, "memory")
    head = "<tr><th>change</th>" + "".join(f'<th class="n">{escape(name)}</th>' for name in names)
    return card(title, "", table(f"{head}<th>what moves</th></tr>", rows, stacked=True))


def _row(advice: Advice, one: Suggestion) -> str:
    size = "" if one.memory_change_bytes is None else signed_gib(one.memory_change_bytes)
    said = ". ".join(notes(advice, one, everything=True))
    papers = " ".join(escape(line) for line in one.papers)
    more = f'<div class="note">{escape(said)}</div>' if said else ""
    more += f'<div class="note">{papers}</div>' if papers and one.kind != "pair" else ""
    cells = {advice.objective.title: figure_text(advice, one.value), "gain": gain_text(advice, one)}
    cells |= {**other_figures(advice, one), "memory": size}
    figures = "".join(
        f'<td class="n" data-label="{escape(name)}: ">{escape(cell)}</td>' for name, cell in cells.items()
    )
    moved = escape(moved_text(advice, one))
    return f"<tr><td><b>{escape(change_text(one))}</b>{more}</td>{figures}<td data-label='moves: '>{moved}</td></tr>"
