"""`windtunnel train`: predict one training step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windtunnel.cli.export import (
    ExportDir,
    ExportTarget,
    Force,
    TargetVersion,
    Wrapper,
    check_export,
    end_export,
    write_launch_files,
)
from windtunnel.cli.options import AsJson, Cite, Overrides, Scenario, Verbose, examples
from windtunnel.cli.output import check_targets, draw, listener, note, print_json, write_references
from windtunnel.cli.sources import scenario_source

if TYPE_CHECKING:
    from windtunnel.scenarios.source import Source
    from windtunnel.views.train import Published


def train(
    scenario: Scenario,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the simulated step as Chrome JSON (ui.perfetto.dev opens it; .gz works)."
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Show a measured step time next to ours: 14.65 or 14.6-14.7.")
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval/--no-interval", help="Show how far the prediction may be off.")
    ] = True,
    cite: Cite = None,
    curves: Annotated[bool, typer.Option("--curves", help="With --json: also the memory curve and the trace.")] = False,
    export: ExportTarget = None,
    target_version: TargetVersion = None,
    export_dir: ExportDir = Path("launch"),
    wrapper: Wrapper = "torchrun",
    force: Force = False,
) -> None:
    """Predict one training step: time, MFU, memory, and why."""
    published = _published(against)
    check_export(export, target_version, wrapper, force=force)
    check_targets(trace, report, cite, inputs=[scenario])
    from windtunnel.commands.train import run

    taken: list[tuple[Source, tuple[str, ...]]] = []
    with listener("simulating", planned=lambda *scenario_and_settings: taken.append(scenario_and_settings)) as told:
        result = run(
            scenario_source(scenario), tuple(overrides or ()), listener=told, trace=bool(trace or report or curves)
        )
    exported = write_launch_files(*taken[0], export, target_version, export_dir, wrapper)
    if trace is not None:
        from windtunnel.exporters import perfetto

        note(f"trace   {perfetto.write(result, trace)}  (open in ui.perfetto.dev)")
    if report is not None or not as_json:
        from windtunnel.views.train import view

        draw(view(result, published=published, interval=interval), report, terminal=not as_json)
    if cite is not None:
        write_references(cite, result.techniques, result.citations)
    if as_json:
        data: dict[str, Any] = result.to_dict(curves=curves)
        if not interval:
            data["interval"] = None
        if published is not None:
            data["published"] = {
                "low_s": published.low_s,
                "high_s": published.high_s,
                "error": result.step_time_s / published.middle_s - 1,
            }
        if exported is not None:
            data["export"] = exported.to_dict()
        print_json(data)
    end_export(exported, force=force)


def _published(text: str | None) -> Published | None:
    if text is None:
        return None
    from windtunnel.errors import BadInput
    from windtunnel.quantities import read_seconds
    from windtunnel.views.train import Published

    try:
        ends = read_seconds(text)
    except ValueError:
        ends = None
    if ends is None:
        raise BadInput(f"--against = {text}: must be seconds above 0, such as 14.65, 950ms or 14.6-14.7")
    return Published(*ends)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "train examples/llama3-70b-64xh100.yaml",
            "train my.yaml --set plan.tp=8 --set plan.pp=2 --json",
            "train my.yaml --trace trace.json --report report.html",
            "train my.yaml --against 14.6-14.7",
            "train my.yaml --export megatron --export-dir launch --wrapper slurm",
        )
    )(train)
