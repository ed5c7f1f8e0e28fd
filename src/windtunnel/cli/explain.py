"""`windtunnel explain`: why a step takes as long as it does."""

from __future__ import annotations

from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, examples
from windtunnel.cli.output import console, print_json, progress
from windtunnel.cli.sources import result_of


def explain(
    scenario: Annotated[
        str, typer.Argument(metavar="SCENARIO", help="Scenario, or a result of `train --json`.", show_default=False)
    ],
    overrides: Overrides = None,
    as_json: AsJson = False,
    against: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="A measured step time to account for.", min=1e-9)
    ] = None,
) -> None:
    """Say why a step takes that long.

    With --against, also what could account for a measurement that differs.
    """
    from windtunnel.report.explain import explain as explain_result
    from windtunnel.report.explain import explanation_summary

    with progress("simulating"):
        result = result_of(scenario, tuple(overrides or ()))
    explanation = explain_result(result, against)
    if as_json:
        print_json(explanation.to_dict())
    else:
        console().print(explanation_summary(explanation))


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(epilog=examples("explain my.yaml", "explain my.yaml --against 16.2", "explain result.json --json"))(
        explain
    )
