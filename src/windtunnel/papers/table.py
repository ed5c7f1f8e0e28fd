"""Claims of papers as a Markdown table: `python -m windtunnel.papers.table megatron_3d`."""

from __future__ import annotations

import sys

from windtunnel.papers import ClaimResult, run_paper


def number(value: float) -> str:
    """Three digits, or all of a whole number."""
    return f"{value:.0f}" if value == round(value) or abs(value) >= 100 else f"{value:.3g}"


def markdown(claims: list[ClaimResult]) -> str:
    """One row a claim, then what is missing behind each miss."""
    lines = ["| claim | published | simulated | low to high | |", "|---|---:|---:|---:|---|"]
    reasons: dict[str, list[str]] = {}
    for c in claims:
        numbers = " | ".join((number(c.published), number(c.simulated), f"{number(c.low)} to {number(c.high)}"))
        lines.append(f"| {c.claim} | {numbers} | {'inside' if c.within else '**miss**'} |")
        if not c.within:
            reasons.setdefault(c.assumptions[-1].removeprefix("missing: "), []).append(c.id.partition("/")[2])
    missed = [f"* {', '.join(f'`{one}`' for one in ids)}: {why}." for why, ids in reasons.items()]
    return "\n".join([*lines, "", *missed])


if __name__ == "__main__":
    for paper in sys.argv[1:]:
        print(markdown(run_paper(paper)))
