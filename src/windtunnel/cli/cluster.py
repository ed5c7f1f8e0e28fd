"""`windtunnel cluster`: many jobs on one cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, Scenario, Verbose, examples
from windtunnel.cli.output import check_targets, draw, listener, print_json
from windtunnel.cli.sources import scenario_source


def cluster(
    scenario: Scenario,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report.")] = None,
) -> None:
    """Simulate jobs that share a cluster: completion, queues, energy.

    Needs a section `jobs`: a trace, a policy, a placement.
    """
    check_targets(report, inputs=[scenario])
    from windtunnel.commands.cluster import run

    with listener("simulating") as told:
        result = run(scenario_source(scenario), tuple(overrides or ()), listener=told)
    if report is not None or not as_json:
        from windtunnel.views.cluster import view

        draw(view(result), report, terminal=not as_json)
    if as_json:
        print_json(result.to_dict())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("cluster jobs.yaml", "cluster jobs.yaml --set jobs.policy=srtf --report jobs.html"))(
        cluster
    )
