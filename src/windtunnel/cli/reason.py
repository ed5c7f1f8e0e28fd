"""`windtunnel reason`: accuracy, dollars, joules and seconds of programs of model calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, Verbose, examples
from windtunnel.cli.output import check_targets, draw, listener, print_json
from windtunnel.cli.sources import scenario_source


def reason(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file (YAML or JSON); `-` reads standard input. With --list the id of a strategy.",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report.")] = None,
    show: Annotated[
        bool, typer.Option("--list", help="Simulate nothing: list strategies; with an ID all its knobs.")
    ] = False,
) -> None:
    """Compare strategies of inference: accuracy, dollars, latency.

    Needs sections `programs` (strategies and problems) and `population` (how often one attempt is right). Every
    strategy runs on every model; what no other beats is the front.
    """
    if show:
        from windtunnel.cli.reason_parts import show_strategies

        show_strategies(scenario, as_json=as_json)
        return
    if scenario is None:
        from windtunnel.errors import BadInput

        raise BadInput("SCENARIO: name a scenario file, or --list to see strategies")
    check_targets(report, inputs=[scenario])
    from windtunnel.commands.reason import run

    with listener("strategies") as told:
        result = run(scenario_source(scenario), tuple(overrides or ()), listener=told)
    from windtunnel.views.reason import view

    draw(view(result), report, terminal=False)
    if as_json:
        print_json(result.to_dict())
        return
    draw(view(result))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "reason examples/reasoning/best-of-n.yaml",
            "reason my.yaml --set search.limits.cost_per_task=0.05 --json",
            "reason my.yaml --report front.html",
            "reason --list",
            "reason best_of_n --list",
        )
    )(reason)
