"""`windtunnel measure`: really run a small version of a scenario, next to its prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, Scenario, examples
from windtunnel.cli.output import console, note, print_json, progress
from windtunnel.cli.sources import scenario_source, serves


def measure(
    scenario: Scenario,
    profile: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Profile by `calibrate`, with as many ranks as the step has (two on a CPU)."),
    ] = Path("machine.yaml"),
    overrides: Overrides = None,
    way: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="WAY",
            help="single, ddp, fsdp2, tp, pp; absent: the plan's largest axis.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=3, help="Timed steps; the median counts.")] = 5,
    full_size: Annotated[bool, typer.Option("--full-size", help="Leave model, length and batch as they are.")] = False,
    append: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the rows to a file that `validate --rows` reads.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario's step in PyTorch, scaled down to this machine.

    It prints predicted against measured.

    On a CPU one process, or two over gloo; with a GPU one process on it. A serving scenario is decoded in a plain loop.
    """
    from windtunnel.errors import BadInput, Problem

    if not profile.exists():
        raise BadInput(Problem("--profile", "is no file; `windtunnel calibrate` writes one", str(profile)))
    from windtunnel.calibration import measure as real

    found: real.Measured | real.Decoded
    changes = tuple(overrides or ())
    with progress("running"):
        if serves(scenario):
            source = scenario_source(scenario)
            found = real.measure_decoding(
                source, profile=str(profile), overrides=changes, steps=steps, full_size=full_size
            )
        else:
            found = real.measure(
                scenario_source(scenario),
                profile=str(profile),
                overrides=changes,
                way=way,
                steps=steps,
                full_size=full_size,
            )
    if append is not None:
        note(f"rows    {append}  ({real.append(found.rows(), append)} in all)")
    if as_json:
        print_json(found.to_dict())
        return
    from windtunnel.calibration.text import decoded_summary, measured_summary

    shown = decoded_summary(found) if isinstance(found, real.Decoded) else measured_summary(found)
    console().print(shown)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "measure my.yaml",
            "measure my.yaml --as fsdp2 --profile two.yaml",
            "measure serve.yaml --append mine.json",
        )
    )(measure)
