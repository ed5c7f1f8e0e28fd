"""`windtunnel advise`: which published techniques would help a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, Scenario, examples
from windtunnel.cli.output import check_targets, draw, listener, note, print_json, write_references
from windtunnel.cli.sources import scenario_source
from windtunnel.files.writing import write_text


def advise(
    scenario: Scenario,
    overrides: Overrides = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="time, memory, energy, money; of serving: throughput, goodput, ttft, tpot, e2e, energy, money; "
            "of a scenario with `run`: days, run_cost, run_energy, carbon_kg.",
            show_default=False,
        ),
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs/--no-pairs", help="Also try promising ones two by two.")] = True,
    everything: Annotated[
        bool, typer.Option("--all", help="List every suggestion, and why techniques do not apply.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the scenario with the best suggestion switched on.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the advice as one HTML file with a chart of gains.")
    ] = None,
    cite: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the papers of all suggestions as BibTeX.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which published techniques would help, and by how much.

    Every technique that applies is simulated in the scenario, with a few settings of its knobs, then promising ones
    two by two; recomputation and the micro-batch are tried next to them. A scenario with `run` is advised on its whole
    run: days, dollars and energy through failures, saves and restarts, also by techniques that act on those alone.
    """
    check_targets(write, report, cite, inputs=[scenario])
    from windtunnel.commands.advise import run

    with listener("trying techniques") as told:
        advice = run(scenario_source(scenario), tuple(overrides or ()), listener=told, objective=objective, pairs=pairs)
    if write is not None:
        from windtunnel.advice.advice import best_scenario
        from windtunnel.scenarios.load import dump_scenario, load_scenario

        write_text(write, dump_scenario(load_scenario(best_scenario(advice))))
        note(f"scenario  {write}")
    from windtunnel.views.advise import view

    draw(view(advice, everything=everything), report, terminal=False)
    if cite is not None:
        write_references(cite, advice.cited, ())
    if as_json:
        print_json(advice.to_dict())
        return
    draw(view(advice, everything=everything))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "advise my.yaml",
            "advise my.yaml --objective memory",
            "advise my.yaml --set cluster.nodes=32 --report advice.html --cite papers.bib",
            "advise serve.yaml --objective ttft --json",
            "advise examples/llama3-70b-run.yaml --objective run_cost",
        )
    )(advise)
