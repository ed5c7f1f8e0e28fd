"""What `reproduce --out` writes: all claims as data and as tables, a figure of each paper, one of all claims."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from windtunnel.reproduce import ClaimResult
from windtunnel.reproduce.claim_tables import assumed, key_of, markdown, tally
from windtunnel.reproduce.figures import drawn
from windtunnel.reproduce.run_papers import Outcome
from windtunnel.reproduce.settings import load
from windtunnel.training.results.serialise import plain

_PARTS = {"include_plotlyjs": "directory", "full_html": True}


def write(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Write everything and return what was written.

    Args:
        outcomes: papers that have run.
        folder: made where it is missing; files of the same names are replaced.
    """
    folder.mkdir(parents=True, exist_ok=True)
    claims = [c for one in outcomes for c in one.claims]
    written = [folder / "claims.json", folder / "README.md"]
    data = plain([c.to_dict() for c in claims])
    written[0].write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
    written[1].write_text(summary(outcomes) + "\n", "utf-8")
    if claims:
        written.append(folder / "claims.html")
        overview(claims).write_html(written[-1], **_PARTS)
    for one in outcomes:
        if not one.claims:
            continue
        written.append(folder / f"{one.paper}.md")
        figure = drawn(one.paper, one.claims) if one.figure is None and not one.error else one.figure
        picture = f"\nFigure: [{one.paper}.html]({one.paper}.html)\n" if figure else ""
        written[-1].write_text(f"{_section(one)}\n\n{assumed(one.claims)}\n{picture}", "utf-8")
        if figure:
            written.append(folder / f"{one.paper}.html")
            figure.write_html(written[-1], **_PARTS)
    return written


def _section(one: Outcome) -> str:
    paper = load(f"windtunnel.papers.{one.paper}")["paper"]
    head = f"## {one.title}\n\n<{paper['link']}>; {one.within} of {len(one.claims)} within, {one.seconds:.1f} s.\n\n"
    return head + markdown(one.claims)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Papers in a table, with the tally of all claims."""
    claims = [c for one in outcomes for c in one.claims]
    lines = ["# Claims reproduced", "", f"**{tally(claims, len(outcomes))}.**", "", "[All of them](claims.html).", ""]
    lines += ["| paper | within | tier A | tier B | figure | misses | s of CPU |", "|---|---:|---:|---:|---|---|---:|"]
    for one in outcomes:
        name = f"[{one.title}]({one.paper}.md)" if one.claims else f"{one.paper}: {one.error}"
        cells = [_of(one.claims), *(_of([c for c in one.claims if c.tier == tier]) for tier in ("A", "B"))]
        cells.append(f"[figure]({one.paper}.html)" if one.claims and not (one.error and one.figure is None) else "")
        cells.append(", ".join(f"`{key_of(c)}`" for c in one.claims if not c.within))
        lines.append(f"| {name} | {' | '.join(cells)} | {one.cpu_s:.1f} |")
    return "\n".join(lines)


def _of(claims: Sequence[ClaimResult]) -> str:
    return f"{sum(c.within for c in claims)} of {len(claims)}" if claims else ""


def overview(claims: Sequence[ClaimResult]) -> Any:
    """Simulated over published of every claim that has such a ratio, with its range; 1 is the paper's figure."""
    import plotly.graph_objects as go

    shown = [c for c in claims if c.published > 0 and c.low > 0 and math.isfinite(c.high)]
    figure = go.Figure()
    for within, name, colour in ((True, "within its band", "#2a7f62"), (False, "miss", "#c0392b")):
        own = [c for c in shown if c.within is within]
        ratio = [c.simulated / c.published for c in own]
        figure.add_scatter(
            x=ratio,
            y=[f"{c.paper} {key_of(c)}" for c in own],
            mode="markers",
            name=name,
            marker={"color": colour},
            error_x={
                "type": "data",
                "symmetric": False,
                "thickness": 1,
                "array": [c.high / c.published - x for c, x in zip(own, ratio, strict=True)],
                "arrayminus": [x - c.low / c.published for c, x in zip(own, ratio, strict=True)],
            },
            customdata=[(c.claim, c.published, c.simulated, c.band) for c in own],
            hovertemplate="%{customdata[0]}<br>published %{customdata[1]:.4g}, simulated %{customdata[2]:.4g}<br>"
            "band %{customdata[3]}<extra></extra>",
        )
    figure.add_vline(x=1.0, line_width=1, line_dash="dot")
    figure.update_layout(
        template="plotly_white",
        height=140 + 16 * len(shown),
        margin={"l": 320, "r": 20, "t": 40, "b": 40},
        xaxis={"title": "simulated over published", "type": "log"},
        yaxis={
            "autorange": "reversed",
            "dtick": 1,
            "categoryorder": "array",
            "categoryarray": [f"{c.paper} {key_of(c)}" for c in shown],
        },
        legend={"orientation": "h", "y": 1.02},
    )
    return figure
