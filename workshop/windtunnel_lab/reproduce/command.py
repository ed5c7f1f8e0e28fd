"""What `windtunnel reproduce` does with its options: runs papers, prints their claims, writes tables and figures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import typer

from windtunnel.cli.output import console, note, print_json, telling
from windtunnel.cli.tables import listing
from windtunnel.errors import GateFailed
from windtunnel_lab.reproduce import ClaimResult, folders
from windtunnel_lab.reproduce.claims_shown import show
from windtunnel_lab.reproduce.run_papers import Interrupted, Outcome, run_papers
from windtunnel_lab.reproduce.settings import load
from windtunnel_lab.reproduce.write_results import write

__all__ = ["folders", "list_papers", "run"]

_BAR = 24


def run(
    chosen: Sequence[str],
    *,
    jobs: int | None = None,
    out: Path | None = None,
    gate: float | None = None,
    full: bool = False,
    as_json: bool = False,
) -> None:
    """Run papers and print their claims.

    Args:
        chosen: folders.
        jobs: processes; absent: one a core.
        out: folder for tables, figures and claims.json.
        gate: least share of claims that must be within.
        full: print every claim of many papers too.
        as_json: print the claims as JSON.

    Raises:
        Exit: a paper failed (1), or Ctrl-C stopped the run (130).
        GateFailed: fewer claims are within.
    """
    stopped = False
    with telling("reproducing") as say:
        try:
            outcomes = run_papers(
                chosen, jobs=jobs or _cores(), report=lambda *state: say(_words(*state)), figures=out is not None
            )
        except Interrupted as stop:
            outcomes, stopped = list(stop.done), True
    claims = [c for one in outcomes for c in one.claims]
    if out is not None and outcomes:
        note(f"wrote {len(write(outcomes, out))} files to {out}")
    if as_json:
        print_json([c.to_dict() for c in claims])
    else:
        show(outcomes, console(), full=full)
    if stopped:
        note(f"stopped: {len(outcomes)} of {len(chosen)} papers had run")
        raise typer.Exit(130)
    _end(outcomes, claims, gate)


def _end(outcomes: Sequence[Outcome], claims: Sequence[ClaimResult], gate: float | None) -> None:
    """Papers that failed are a bug of ours; too few claims within are a failed gate.

    Raises:
        GateFailed: fewer than asked for.
    """
    failed = [one for one in outcomes if one.error]
    for one in failed:
        note(f"internal error: {one.paper}: {one.error}")
    share = sum(c.within for c in claims) / max(len(claims), 1)
    if failed:
        raise typer.Exit(1)
    if gate is not None and share < gate:
        raise GateFailed(f"{share:.3f} of the claims are within their intervals, below --gate {gate:g}")


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _words(done: int, total: int, waiting: Sequence[str]) -> str:
    full = round(_BAR * done / total)
    few = ", ".join(waiting[:3]) + (" …" if len(waiting) > 3 else "")
    return f"{'━' * full}{'╌' * (_BAR - full)} {done} of {total} papers" + (f"; to come: {few}" if few else "")


def list_papers(chosen: Sequence[str], as_json: bool) -> None:
    """Print id, title and year of papers."""
    rows = [(one, load(f"windtunnel_lab.papers.{one}")["paper"]) for one in chosen]
    if as_json:
        print_json([{"id": one, "title": paper["title"], "year": paper["year"]} for one, paper in rows])
        return
    console().print(listing(("paper", "title", "year"), [(one, p["title"], p["year"]) for one, p in rows]))
