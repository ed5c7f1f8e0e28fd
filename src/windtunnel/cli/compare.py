"""`windtunnel compare`: the difference of two predictions, class by class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, examples
from windtunnel.cli.output import check_targets, console, note, print_json, progress
from windtunnel.cli.sources import result_of


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="Scenario, or a result of `train --json`.", show_default=False)],
    b: Annotated[
        str | None,
        typer.Argument(metavar="B", help="The other one; absent: A with the --set changes.", show_default=False),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report with the waterfall.")
    ] = None,
) -> None:
    """Show where two predictions differ, class by class.

    The classes of time sum to the difference of the step times, the kinds of memory to that of the peaks.
    --set changes B only.
    """
    from windtunnel.errors import BadInput
    from windtunnel.report.compare import comparison_summary, difference

    if b is None and not overrides:
        raise BadInput("compare: needs a second scenario or result, or --set changes to the first")
    check_targets(report, inputs=[a, b])
    with progress("simulating both"):
        first = result_of(a, ())
        second = result_of(b if b is not None else a, tuple(overrides or ()))
    result = difference(first, second)
    if report is not None:
        from windtunnel.report import html_compare

        note(f"report  {html_compare.write(result, report)}")
    if as_json:
        print_json(result.to_dict())
    else:
        console().print(comparison_summary(result))


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        epilog=examples(
            "compare a.yaml b.yaml", "compare my.yaml --set plan.tp=8 --set plan.pp=2", "compare before.json after.json"
        )
    )(compare)
