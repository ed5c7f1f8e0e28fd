"""`windtunnel learn`: algorithms that train a small task for real on the clock of a large target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, Trust, Verbose, examples
from windtunnel.cli.output import check_targets, console, draw, listener, print_json
from windtunnel.cli.sources import scenario_source


def learn(
    scenario: Annotated[
        str | None,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario file (YAML or JSON); `-` reads standard input. With --list the id of a part.",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report.")] = None,
    plot: Annotated[bool, typer.Option("--plot", help="Draw the curves in the terminal.")] = False,
    cache: Annotated[
        bool, typer.Option("--cache/--no-cache", help="Take curves that were learned before, and keep new ones.")
    ] = True,
    bandwidth_for: Annotated[
        list[float] | None,
        typer.Option(
            metavar="SHARE",
            help="Learn nothing: tell the least bandwidth of a worker's link with which workers compute for this share "
            "of their time. May be given several times.",
        ),
    ] = None,
    trust: Trust = False,
    show: Annotated[
        bool,
        typer.Option("--list", help="Learn nothing: list tasks, algorithms and compressors; with an ID all its knobs."),
    ] = False,
) -> None:
    """Train a small task for real with several algorithms.

    It gives the loss against steps, simulated hours, bytes and joules.

    Needs a section `learning`: a task, workers, algorithms. Losses are the small task's, times and bytes the target's.
    """
    import os

    del trust  # the option acts as it is read
    if show:
        from windtunnel.cli.learn_parts import show_parts

        show_parts(scenario, as_json=as_json)
        return
    if scenario is None:
        from windtunnel.errors import BadInput

        raise BadInput("SCENARIO: name a scenario file, or --list to see tasks and algorithms")
    check_targets(report, inputs=[scenario])
    if bandwidth_for:
        _needs(scenario, overrides, bandwidth_for, as_json=as_json)
        return
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # one thread a run; runs are made in parallel
    from windtunnel.commands.learn import run

    with listener("learning") as told:
        result = run(scenario_source(scenario), tuple(overrides or ()), listener=told, cache=cache)
    from windtunnel.views.learn import view

    draw(view(result), report, terminal=False)
    if as_json:
        print_json(result.to_dict())
    else:
        draw(view(result, plot=plot, width=console().width))
    if result.interrupted:
        raise typer.Exit(130)


def _needs(scenario: str, overrides: list[str] | None, shares: list[float], *, as_json: bool) -> None:
    """Bandwidths that algorithms need."""
    from windtunnel import api

    needs = api.link_needs(scenario_source(scenario), shares, overrides=tuple(overrides or ()))
    if as_json:
        print_json(needs.to_dict())
        return
    from windtunnel.views.link_needs import view

    draw(view(needs))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "learn examples/learning/diloco-1b-four-sites.yaml --plot",
            "learn my.yaml --set learning.link.bandwidth='100 Mb/s' --json",
            "learn my.yaml --report curves.html",
            "learn my.yaml --bandwidth-for 0.5 --bandwidth-for 0.9",
            "learn --list",
            "learn diloco --list",
        )
    )(learn)
