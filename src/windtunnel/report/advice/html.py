"""Advice as one HTML file: what bounds the scenario, a chart of gains with their bands, and each suggestion in full."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.report.advice.terminal import (
    GROUPS,
    SHOWN,
    change_text,
    figure_text,
    gain_text,
    head_lines,
    lost_lines,
    moved_text,
    notes,
    refused_lines,
    signed,
)
from windtunnel.report.html_shell import card, document, plot
from windtunnel.report.training.compare import signed_gib

if TYPE_CHECKING:
    from windtunnel.advice import Advice, Suggestion

_TONES = {"settings": "#66757f", "suggestions": "#1565c0", "pairs": "#2e8b57", "unlike": "#e0862c"}
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
        band = "gain of the objective against today; lines are bands of measured pairs"
        parts.append(card("What gains", band, plot(figure(advice))))
    parts += [_group(advice, name, title) for name, title in GROUPS if getattr(advice, name)]
    for title, told in (
        ("No gain here", lost_lines(advice.lost, everything=True)),
        ("Could not be tried", refused_lines(advice.refused, everything=True)),
        ("Does not apply", [f"{name}: {why}" for name, why in advice.unfit.items()]),
    ):
        if told:
            parts.append(card(title, "", "".join(f"<p>{escape(line)}</p>" for line in told)))
    return document(f"Advice for {advice.scenario_name}", parts)


def figure(advice: Advice) -> Any:
    """Bars of gains with their bands, best at the top of each kind."""
    import plotly.graph_objects as go

    out = go.Figure()
    labels: list[str] = []
    for name, _ in GROUPS:
        shown: Sequence[Suggestion] = getattr(advice, name)[: SHOWN[name]]
        if not shown:
            continue
        own = [_label(one, labels) for one in shown]
        out.add_bar(
            y=own,
            x=[100 * s.gain for s in shown],
            orientation="h",
            name=_NAMES[name],
            marker={"color": _TONES[name]},
            error_x={
                "type": "data",
                "symmetric": False,
                "color": "#1f2a33",
                "thickness": 1.2,
                "width": 4,
                "array": [100 * (s.high - s.gain) for s in shown],
                "arrayminus": [100 * (s.gain - s.low) for s in shown],
            },
            hovertext=[f"{escape(change_text(s))}<br>{escape(moved_text(advice, s))}" for s in shown],
            hovertemplate="%{hovertext}<extra></extra>",
        )
    out.add_vline(x=0, line={"color": "#66757f", "width": 1})
    out.update_layout(
        height=110 + 30 * len(labels),
        margin={"l": 16, "r": 24, "t": 40, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": "#1f2a33", "size": 12.5},
        hoverlabel={"align": "left"},
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
        bargap=0.25,
        xaxis={"title": {"text": f"gain in {advice.objective.title}, %"}, "gridcolor": "#e6eaee", "zeroline": False},
        yaxis={"automargin": True, "categoryorder": "array", "categoryarray": labels[::-1]},
    )
    return out


def _label(one: Suggestion, taken: list[str]) -> str:
    """A short name that no other bar has."""
    text = change_text(one)
    text = escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…")
    text = f"{text}  <b>{signed(one.gain)}</b>"
    while text in taken:
        text += " "
    taken.append(text)
    return text


def _group(advice: Advice, name: str, title: str) -> str:
    rows = "".join(_row(advice, one) for one in getattr(advice, name))
    head = f"<tr><th>change</th><th>{escape(advice.objective.title)}</th><th>gain (band)</th><th>memory</th>"
    return card(title, "", f"<table>{head}<th>what moves</th></tr>{rows}</table>")


def _row(advice: Advice, one: Suggestion) -> str:
    size = "" if one.memory_change_bytes is None else signed_gib(one.memory_change_bytes)
    said = ". ".join(notes(advice, one, everything=True))
    papers = " ".join(escape(line) for line in one.papers)
    more = f'<div class="note">{escape(said)}</div>' if said else ""
    more += f'<div class="note">{papers}</div>' if papers and one.kind != "pair" else ""
    return (
        f"<tr><td><b>{escape(change_text(one))}</b>{more}</td><td>{escape(figure_text(advice, one.value))}</td>"
        f"<td>{escape(gain_text(advice, one))}</td><td>{size}</td><td>{escape(moved_text(advice, one))}</td></tr>"
    )
