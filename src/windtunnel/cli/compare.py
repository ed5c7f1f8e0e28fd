"""`windtunnel compare`: the difference of two predictions, class by class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, Verbose, examples
from windtunnel.cli.output import check_targets, draw, print_json, progress
from windtunnel.cli.sources import result_of, serves, serving_figures


def compare(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="Scenario, or a result of `train --json` or `serve --json`.", show_default=False
        ),
    ],
    b: Annotated[
        str | None,
        typer.Argument(metavar="B", help="The other one; absent: A with the --set changes.", show_default=False),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report.")] = None,
) -> None:
    """Show where two predictions differ, class by class.

    The classes of time sum to the difference of the step times, the kinds of memory to that of the peaks; two runs
    of serving are compared figure by figure, and iteration by iteration. --set changes B only.
    """
    from windtunnel.errors import BadInput
    from windtunnel.training.comparison import difference

    if b is None and not overrides:
        raise BadInput("compare: needs a second scenario or result, or --set changes to the first")
    check_targets(report, inputs=[a, b])
    if serves(a) or (b is not None and serves(b)):
        _serving(a, b, tuple(overrides or ()), report, as_json=as_json)
        return
    with progress("simulating both"):
        first = result_of(a, ())
        second = result_of(b if b is not None else a, tuple(overrides or ()))
    result = difference(first, second)
    from windtunnel.views.compare import view

    draw(view(result), report, terminal=not as_json)
    if as_json:
        print_json(result.to_dict())


def _serving(a: str, b: str | None, overrides: tuple[str, ...], report: Path | None, *, as_json: bool) -> None:
    from windtunnel.errors import BadInput
    from windtunnel.serving.comparison import compared
    from windtunnel.views.compare_serving import view

    if b is not None and not serves(b):
        raise BadInput(f"{b}: not a scenario of serving, which {a} is")
    if not serves(a):
        raise BadInput(f"{a}: not a scenario of serving, which {b} is")
    with progress("simulating both"):
        result = compared(serving_figures(a, ()), serving_figures(b if b is not None else a, overrides))
    draw(view(result), report, terminal=not as_json)
    if as_json:
        print_json(result.to_dict())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "compare a.yaml b.yaml",
            "compare my.yaml --set plan.tp=8 --set plan.pp=2",
            "compare before.json after.json",
            "compare serve.yaml --set serving.engine=sglang",
        )
    )(compare)
