"""`windtunnel reproduce`: run the experiments behind published claims."""

from __future__ import annotations

from typing import Annotated

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress


def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", autocompletion=complete.papers, help="Papers; absent: all.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Re-run the headline claims of papers.

    Prints published beside simulated figures, with low and high over what the paper leaves open.
    """
    from windtunnel import papers

    with progress("reproducing"):
        claims = papers.reproduce(ids or ())
    if as_json:
        print_json(claims)
        return
    from windtunnel.cli.tables import listing

    rows = [
        (
            c["id"], c["claim"], _number(c["published"]), _number(c["simulated"]),
            f"{_number(c['low'])} to {_number(c['high'])}", "within" if c["within"] else "miss",
        )
        for c in claims
    ]  # fmt: skip
    console().print(listing(("paper", "claim", "published", "simulated", "low to high", ""), rows))
    reasons: dict[str, list[str]] = {}
    for c in claims:
        for note in c["assumptions"]:
            if note.startswith("missing: "):
                reasons.setdefault(note, []).append(c["id"])
    for note, missed in reasons.items():
        console().print(f"{', '.join(missed)}: {note}", soft_wrap=True, markup=False, highlight=False)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=examples("reproduce", "reproduce zero_bubble --json"))(reproduce)
