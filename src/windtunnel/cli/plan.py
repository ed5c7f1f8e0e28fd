"""`windtunnel plan`: the best plan of a search space, with the proof."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windtunnel.cli.export import ExportDir, ExportTarget, TargetVersion, Wrapper, check_export, write_launch_files
from windtunnel.cli.options import AsJson, Overrides, Scenario, examples
from windtunnel.cli.output import check_targets, console, note, print_json, progress
from windtunnel.cli.sources import scenario_source

if TYPE_CHECKING:
    from windtunnel.planner.plan import PlanResult


def plan(
    scenario: Scenario,
    overrides: Overrides = None,
    as_json: AsJson = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the scenario with the best plan, for `train`.")
    ] = None,
    free: Annotated[
        bool, typer.Option("--free", help="Search also the axes that `plan` sets, and say how far that plan is off.")
    ] = False,
    export: ExportTarget = None,
    target_version: TargetVersion = None,
    export_dir: ExportDir = Path("launch"),
    wrapper: Wrapper = "torchrun",
) -> None:
    """Find the fastest plan that fits, and prove it.

    Axes that the scenario's `plan` sets are kept; `search.space` lists values for others; the rest take every legal
    value. Each candidate gets a lower bound; those whose bound is not below the best found need no simulation.
    """
    check_targets(output, inputs=[scenario])
    check_export(export, target_version, wrapper)
    from windtunnel import api

    with progress("planning"):
        result = api.plan(scenario_source(scenario), overrides=tuple(overrides or ()), free=free)
    if output is not None:
        _write(result, output)
    from windtunnel.training.serialise import plain

    found = plain(result.scenario)
    exported = write_launch_files(found, (), export, target_version, export_dir, wrapper)
    if as_json:
        print_json(result.to_dict() | ({"export": exported.to_dict()} if exported else {}))
        return
    from windtunnel.report.plan import plan_summary

    console().print(plan_summary(result))


def _write(result: PlanResult, output: Path) -> None:
    import yaml

    from windtunnel.training.serialise import plain

    output.write_text(yaml.safe_dump(plain(result.scenario), sort_keys=False, width=100), "utf-8")
    note(f"scenario  {output}")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        epilog=examples(
            "plan examples/search/llama3-70b-64xh100.yaml",
            "plan my.yaml --set search.space.tp=[2,4,8] --set search.space.recompute=[none,full]",
            "plan my.yaml --output best.yaml --json",
            "plan imported.yaml --free",
            "plan my.yaml --export megatron --wrapper slurm",
        )
    )(plan)
