"""Claims on a terminal: figures of a claim in a row, what it says below; where there are many, one line a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console

    from windtunnel_lab.reproduce import ClaimResult
    from windtunnel_lab.reproduce.run_papers import Outcome

MANY = 8
"""Papers from which on each takes one line, unless all claims are asked for."""
_NAMED = 3
"""Misses of a paper that its line names."""
_HEADS = ("", "claim", "tier", "published", "simulated", "low to high", "band")
_LEFT = (True, True, True, False, False, False, True)
_MARKS = {"by construction": "within ¹", "since a change after a first run": "within ²"}
_NOTES = {
    "within ¹": "¹ by construction: the setting says it already",
    "within ²": "² only since a change after a first run, listed in the paper's claims.yaml",
}


def show(outcomes: Sequence[Outcome], out: Console, *, full: bool) -> None:
    """Every paper, then how many claims are within.

    Args:
        outcomes: papers that have run.
        out: where.
        full: every claim, however many papers there are.
    """
    from windtunnel_lab.reproduce.claim_tables import tally

    claims = [c for one in outcomes for c in one.claims]
    if full or len(outcomes) < MANY:
        for one in outcomes:
            _paper(one, out)
    else:
        _lines(outcomes, out)
    used = {_mark(c) for c in claims}
    notes = [note for mark, note in _NOTES.items() if mark in used]
    if notes and (full or len(outcomes) < MANY):
        _below(out, notes, 0)
    ran = sum(not one.error for one in outcomes)
    out.print(tally(claims, ran) + ".", style="bold", markup=False, soft_wrap=True)
    if not full and len(outcomes) >= MANY:
        _below(out, ["claims and reasons: `reproduce PAPER`, `--full`, or `--out DIR` for tables and figures"], 0)


def _mark(claim: ClaimResult) -> str:
    return _MARKS.get(claim.holds, f"within {claim.holds}".strip()) if claim.within else "MISS"


def _paper(one: Outcome, out: Console) -> None:
    from rich.text import Text

    from windtunnel_lab.reproduce.claim_tables import key_of, number

    head = f"{one.title}: {one.within} of {len(one.claims)} within, {one.seconds:.1f} s"
    out.print(head, style="bold", markup=False, soft_wrap=True)
    rows = [
        (
            _mark(c),
            key_of(c),
            c.tier,
            number(c.published),
            number(c.simulated),
            number(c.low) if c.low == c.high else f"{number(c.low)} to {number(c.high)}",
            c.band,
        )
        for c in one.claims
    ]
    widths = [max(map(len, column)) for column in zip(_HEADS, *rows, strict=True)]
    out.print(_row(_HEADS, widths), style="dim", markup=False, soft_wrap=True)
    for row, claim in zip(rows, one.claims, strict=True):
        line = Text(_row(row, widths), "" if claim.within else "red")
        out.print(line, soft_wrap=True)
        _below(out, [claim.claim], widths[0] + 2)
    reasons: dict[str, list[str]] = {}
    for c in one.claims:
        if not c.within:
            reasons.setdefault(c.missing or "not found yet", []).append(key_of(c))
    for why, keys in reasons.items():
        out.print(f"{', '.join(keys)}: missing:", markup=False, soft_wrap=True)
        _below(out, [why], widths[0] + 2)
    out.print()


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (
        cell.ljust(width) if left else cell.rjust(width) for cell, width, left in zip(cells, widths, _LEFT, strict=True)
    )
    return "  ".join(padded).rstrip()


def _below(out: Console, lines: Iterable[str], indent: int) -> None:
    from rich.padding import Padding
    from rich.text import Text

    for line in lines:
        out.print(Padding(Text(line, "dim"), (0, 0, 0, indent), expand=False))


def _lines(outcomes: Sequence[Outcome], out: Console) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from windtunnel_lab.reproduce.claim_tables import key_of

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("paper", no_wrap=True, min_width=max(len(one.paper) for one in outcomes))
    for head in ("within", "A", "B", "s"):
        table.add_column(head, justify="right", no_wrap=True, min_width=2 if head == "s" else 8)
    table.add_column("misses", no_wrap=True, overflow="ellipsis")
    for one in outcomes:
        tiers = [_of([c for c in one.claims if c.tier == tier]) for tier in ("A", "B")]
        keys = [key_of(c) for c in one.claims if not c.within]
        more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        missed = one.error or ", ".join(keys[:_NAMED]) + more
        table.add_row(one.paper, _of(one.claims), *tiers, f"{one.seconds:.0f}", Text(missed, "red"))
    out.print(table)


def _of(claims: Sequence[ClaimResult]) -> str:
    return f"{sum(c.within for c in claims)} of {len(claims)}" if claims else ""
