"""`windtunnel run`: predict a whole training run, through failures, to its last step."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, Scenario, Verbose, examples
from windtunnel.cli.output import check_targets, draw, listener, note, print_json
from windtunnel.cli.sources import scenario_source
from windtunnel.files.writing import write_text


def run(
    scenario: Scenario,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report.")] = None,
    progress_log: Annotated[
        Path | None,
        typer.Option("--progress", metavar="LOG.csv", help="Steps and incidents so far: when does this run end now?"),
    ] = None,
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Choose the save interval, spares and checkpoint tiers (run.search says among which)."
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --search: write the scenario with the best choice.")
    ] = None,
    sensitivities: Annotated[
        bool, typer.Option("--sensitivities/--no-sensitivities", help="Show what would change the days.")
    ] = True,
    jobs: Annotated[
        int,
        typer.Option(
            "-j", "--jobs", min=1, max=1024, help="Processes for replications that take seconds; same result."
        ),
    ] = 1,
) -> None:
    """Predict a whole training run: days, failures, money, carbon."""
    check_targets(report, output, inputs=[scenario, progress_log])
    if search or output is not None:
        _search(scenario, tuple(overrides or ()), _Wanted(search, progress_log, as_json, report, output))
        return
    from windtunnel.commands.run import run as predict

    with listener("simulating") as told:
        result = predict(
            scenario_source(scenario),
            tuple(overrides or ()),
            full=sensitivities,
            listener=told,
            log=progress_log,
            processes=jobs,
        )
    from windtunnel.views.run import view

    draw(view(result), report, terminal=not as_json)
    if as_json:
        print_json(result.to_dict())


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a search was asked for."""

    search: bool
    progress_log: Path | None
    as_json: bool
    report: Path | None
    output: Path | None


def _search(scenario: str, overrides: tuple[str, ...], wanted: _Wanted) -> None:
    """Search the run's own choices, write and tell.

    Raises:
        BadInput: options that do not go together.
    """
    from windtunnel.commands.run import search
    from windtunnel.errors import BadInput, Problem

    if not wanted.search:
        raise BadInput(Problem("--output", "goes with --search: it writes the scenario with the best choice"))
    if wanted.progress_log is not None:
        raise BadInput(Problem("--search", "goes without --progress: it chooses for a run from its start"))
    with listener("searching") as told:
        found = search(scenario_source(scenario), overrides, listener=told)
    if not found.complete:
        note("stopped: the best choice so far follows")
    if wanted.output is not None:
        import yaml

        from windtunnel.training.results.serialise import plain

        write_text(wanted.output, yaml.safe_dump(plain(found.scenario), sort_keys=False, width=100))
        note(f"scenario  {wanted.output}")
    from windtunnel.views.search_run import view

    draw(view(found), wanted.report, terminal=not wanted.as_json)
    if wanted.as_json:
        print_json(found.to_dict())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "run examples/llama3-405b-run.yaml",
            "run my.yaml --set run.recovery.spares=16 --set run.failures=rsc-1-2024 --json",
            "run my.yaml --report run.html",
            "run my.yaml --progress log.csv",
            "run my.yaml --search --report choices.html --output best.yaml",
        )
    )(run)
