"""`windtunnel reproduce`: run the experiments behind published claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, note, print_json, telling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.reproduce import ClaimResult
    from windtunnel.reproduce.run_papers import Outcome

_BAR = 24


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            autocompletion=complete.papers,
            show_default=False,
            help="Papers, by folder, catalogue id or technique; absent: all.",
        ),
    ] = None,
    acts_on: Annotated[
        str | None,
        typer.Option(
            metavar="WORKLOAD",
            help="Only papers on training, serving, run (whole runs), cluster, learning or laws.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; absent: one a core.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write tables (Markdown), claims.json and figures there.")
    ] = None,
    gate: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Exit 4 when a smaller share of claims is within."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Every claim and what is missing, of many papers too.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Name the papers and run none.")] = False,
    as_json: AsJson = False,
) -> None:
    """Re-run the headline claims of papers.

    Prints published beside simulated figures, with low and high over what the paper leaves open. A miss is a result:
    it does not change the exit code unless --gate asks for it.
    """
    from windtunnel import reproduce as papers
    from windtunnel.reproduce.run_papers import Interrupted, run_papers

    chosen = papers.folders(ids or (), acts_on)
    if show:
        _list(chosen, as_json)
        return
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
        from windtunnel.reproduce.write_results import write

        note(f"wrote {len(write(outcomes, out))} files to {out}")
    if as_json:
        print_json([c.to_dict() for c in claims])
    else:
        from windtunnel.cli.claims_shown import show as show_claims

        show_claims(outcomes, console(), full=full)
    if stopped:
        note(f"stopped: {len(outcomes)} of {len(chosen)} papers had run")
        raise typer.Exit(130)
    _end(outcomes, claims, gate)


def _end(outcomes: Sequence[Outcome], claims: Sequence[ClaimResult], gate: float | None) -> None:
    """Papers that failed are a bug of ours; too few claims within are a failed gate.

    Raises:
        GateFailed: fewer than asked for.
    """
    from windtunnel.errors import GateFailed

    failed = [one for one in outcomes if one.error]
    for one in failed:
        note(f"internal error: {one.paper}: {one.error}")
    share = sum(c.within for c in claims) / max(len(claims), 1)
    if failed:
        raise typer.Exit(1)
    if gate is not None and share < gate:
        raise GateFailed(f"{share:.3f} of the claims are within their bands, below --gate {gate:g}")


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _words(done: int, total: int, waiting: Sequence[str]) -> str:
    full = round(_BAR * done / total)
    few = ", ".join(waiting[:3]) + (" …" if len(waiting) > 3 else "")
    return f"{'━' * full}{'╌' * (_BAR - full)} {done} of {total} papers" + (f"; to come: {few}" if few else "")


def _list(chosen: Sequence[str], as_json: bool) -> None:
    from windtunnel.cli.tables import listing
    from windtunnel.reproduce.settings import load

    rows = [(one, load(f"windtunnel.papers.{one}")["paper"]) for one in chosen]
    if as_json:
        print_json([{"id": one, "title": paper["title"], "year": paper["year"]} for one, paper in rows])
        return
    console().print(listing(("paper", "title", "year"), [(one, p["title"], p["year"]) for one, p in rows]))


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=examples("reproduce", "reproduce zero_bubble --json", "reproduce --out out/claims --jobs 8"))(
        reproduce
    )
