"""What `reproduce --out` writes: all claims as data and as tables, a figure of each paper, one of all claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from windtunnel.training.results.serialise import plain
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claim_tables import assumed, key_of, markdown, tally
from windtunnel_lab.reproduce.figures import drawn, overview
from windtunnel_lab.reproduce.run_papers import Outcome
from windtunnel_lab.reproduce.settings import load


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
        overview(claims).save(written[-1])
    for one in outcomes:
        if not one.claims:
            continue
        written.append(folder / f"{one.paper}.md")
        figure = drawn(one.paper, one.claims) if one.figure is None and not one.error else one.figure
        picture = f"\nFigure: [{one.paper}.html]({one.paper}.html)\n" if figure else ""
        written[-1].write_text(f"{_section(one)}\n\n{assumed(one.claims)}\n{picture}", "utf-8")
        if figure:
            written.append(folder / f"{one.paper}.html")
            figure.save(written[-1])
    return written


def _section(one: Outcome) -> str:
    paper = load(f"windtunnel_lab.papers.{one.paper}")["paper"]
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
