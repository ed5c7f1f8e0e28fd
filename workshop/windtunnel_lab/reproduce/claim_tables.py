"""Claims as text: numbers, intervals, Markdown.

`python -m windtunnel_lab.reproduce.claim_tables megatron_3d` prints one paper.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from windtunnel_lab.reproduce import ClaimResult, run_paper

_WORDS = {"equals": "=", "above": ">", "at_least": "≥", "below": "<", "at_most": "≤"}


def number(value: float) -> str:
    """Three digits, or all of a whole number."""
    if not math.isfinite(value):
        return "not reached"
    return f"{value:.0f}" if value == round(value) or abs(value) >= 100 else f"{value:.3g}"


def band(rule: dict[str, float], published: float) -> str:
    """A rule such as `{absolute: 0.2}` in figures of the claim."""
    parts = [f"{word} {number(rule[name])}" for name, word in _WORDS.items() if name in rule]
    if "absolute" in rule:
        parts.insert(0, f"{number(published - rule['absolute'])} to {number(published + rule['absolute'])}")
    return ", ".join(parts)


def cell(text: str) -> str:
    """Text as a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def key_of(claim: ClaimResult) -> str:
    """The claim's name inside its paper."""
    head, _, rest = claim.id.partition("/")
    return rest if rest and head.replace("-", "_") == claim.paper else claim.id


def verdict(claim: ClaimResult) -> str:
    """`within`, with what weakens it, or `miss`."""
    return f"within {claim.holds}".strip() if claim.within else "**miss**"


def markdown(claims: Sequence[ClaimResult]) -> str:
    """One row a claim, then what is missing behind each miss."""
    lines = ["| claim | published | simulated | low to high | band | |", "|---|---:|---:|---:|---|---|"]
    reasons: dict[str, list[str]] = {}
    for c in claims:
        numbers = " | ".join((number(c.published), number(c.simulated), f"{number(c.low)} to {number(c.high)}"))
        tier = f" (tier {c.tier})" if c.tier else ""
        lines.append(f"| `{key_of(c)}`{tier}: {cell(c.claim)} | {numbers} | {c.band} | {verdict(c)} |")
        if not c.within:
            reasons.setdefault(cell(c.missing or "not found yet"), []).append(f"`{key_of(c)}`")
    missed = [f"* Missing behind {', '.join(keys)}: {why.rstrip('.')}." for why, keys in reasons.items()]
    return "\n".join([*lines, *([""] if missed else []), *missed])


def assumed(claims: Sequence[ClaimResult]) -> str:
    """What claims take for granted, each assumption once."""
    notes = dict.fromkeys(cell(x) for c in claims for x in c.assumptions if not x.startswith("missing: "))
    return "\n".join(f"* Assumed: {note.rstrip('.')}." for note in notes)


def tally(claims: Sequence[ClaimResult], papers: int) -> str:
    """How many are within, of all and of each tier."""
    within = sum(c.within for c in claims)
    parts = [f"{within} of {len(claims)} claims of {papers} papers within their bands"]
    for tier in ("A", "B"):
        own = [c for c in claims if c.tier == tier]
        if own:
            parts.append(f"tier {tier} {sum(c.within for c in own)} of {len(own)}")
    weak = sum(c.within and bool(c.holds) for c in claims)
    if weak:
        parts.append(f"{weak} of the first by construction or only since a later change")
    return ", ".join(parts)


if __name__ == "__main__":
    for paper in sys.argv[1:]:
        print(markdown(run_paper(paper)))
