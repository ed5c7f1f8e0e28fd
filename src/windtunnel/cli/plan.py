"""`windtunnel plan`: the best plan of a search space, with the proof."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from windtunnel.exporters.launch import Exported
    from windtunnel.planner.rank_devices import DeviceRanking
    from windtunnel.planner.result import PlanResult
    from windtunnel.planner.serving.plan_deployment import ServingPlan
    from windtunnel.views.view import View

from windtunnel.cli.export import (
    ExportDir,
    ExportTarget,
    Force,
    TargetVersion,
    Wrapper,
    check_export,
    check_one_cluster,
    end_export,
    write_launch_files,
)
from windtunnel.cli.options import AsJson, Overrides, Scenario, Verbose, examples
from windtunnel.cli.output import check_targets, draw, listener, note, print_json
from windtunnel.cli.sources import scenario_source
from windtunnel.files.writing import write_text


def plan(
    scenario: Scenario,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the scenario with the best plan, for `train`.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What to make best (search.objective): step_time, days, run_cost, carbon_kg …; several by commas.",
            show_default=False,
        ),
    ] = None,
    free: Annotated[
        bool, typer.Option("--free", help="Search also the layout that `plan` sets, and say how far that plan is off.")
    ] = False,
    why: Annotated[
        bool | None,
        typer.Option(
            "--why/--no-why",
            help="Say what the next layout loses and what each limit costs (up to a million plans).",
            show_default=False,
        ),
    ] = None,
    stability: Annotated[
        bool,
        typer.Option("--stability", help="Search how far each resource may change before another layout wins (slow)."),
    ] = False,
    time_limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=1.0,
            help="Answer within so many seconds with the best plan so far, and say how much better another could be.",
            show_default=False,
        ),
    ] = None,
    simpler: Annotated[
        bool, typer.Option("--simpler", help="Write and export the recommended plan, if it is not the fastest.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option("--html", "--report", metavar="FILE", help="Write a one-file HTML report.")
    ] = None,
    export: ExportTarget = None,
    target_version: TargetVersion = None,
    export_dir: ExportDir = Path("launch"),
    wrapper: Wrapper = "torchrun",
    force: Force = False,
) -> None:
    """Find the best plan that keeps to the limits, and prove it.

    With `search.target: serving` it is the best deployment for a load and an objective.
    Axes that the scenario's `plan` sets are kept; `search.space` lists values for others; the rest take every legal
    value. Each candidate gets a lower bound; those whose bound is not below the best found need no simulation. Ctrl-C
    ends the search with the best plan so far, and so does --time-limit; spaces of models with experts are often so
    large that the search ends by itself after some 25 s.
    """
    check_targets(output, html, inputs=[scenario])
    if objective is not None:
        overrides = [*(overrides or ()), f"search.objective={f'[{objective}]' if ',' in objective else objective}"]
    check_export(export, target_version, wrapper, force=force)
    from windtunnel.cli.plan_progress import stopped_words
    from windtunnel.commands.plan import run
    from windtunnel.errors import BadInput, Problem
    from windtunnel.planner.rank_devices import DeviceRanking, asks_for_any_device

    source, settings = scenario_source(scenario), tuple(overrides or ())
    if asks_for_any_device(source, settings) and (html or export):
        raise BadInput(Problem("--export, --html", "take one device; give the chosen one with --set cluster.device=…"))
    if export is not None:
        check_one_cluster(source, settings)
    try:
        with listener("planning", stops=False) as told:
            result = run(
                source,
                settings,
                listener=told,
                free=free or None,
                explain=why,
                stable=stability,
                time_limit_s=None if time_limit is None else max(time_limit - process_time(), 0.0),
            )
    except KeyboardInterrupt as stop:
        note(stopped_words(stop))
        raise typer.Exit(130) from None
    if isinstance(result, DeviceRanking):
        _show_devices(result, output, as_json=as_json)
        return
    from windtunnel.planner.serving.plan_deployment import ServingPlan

    launch = (export, target_version, export_dir, wrapper)
    wanted = _Written(output=output, html=html, launch=launch, as_json=as_json, force=force)
    if isinstance(result, ServingPlan):
        _show_serving(result, wanted, simpler=simpler)
        return
    _remarks(result, why=why, stability=stability)
    _show_training(result, wanted, simpler=simpler)


def _show_devices(found: DeviceRanking, output: Path | None, *, as_json: bool) -> None:
    """Write and print the best plan on every priced device."""
    if output is not None:
        _write(found.ranked[0].scenario, output)
    if as_json:
        from windtunnel.training.results.serialise import plain

        print_json(plain(found.to_dict()))
        return
    from windtunnel.views.rank_devices import view

    draw(view(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What to write and print of a plan."""

    output: Path | None
    """File of the scenario with the plan."""
    html: Path | None
    """File of the report."""
    launch: tuple[str | None, str | None, Path, str]
    """Target of the launch files, its version, their folder, and the wrapper."""
    as_json: bool
    force: bool
    """Whether launch files that start something else than what was planned are accepted."""


def _remarks(result: PlanResult, *, why: bool | None, stability: bool) -> None:
    """Say what a search left out: its end, the stability search, the explanation."""
    from windtunnel.planner.plan_one_cluster import EXPLAINED

    if not result.proof.complete:
        note(f"stopped: the best plan so far follows; one up to {100 * result.proof.gap:.1f} % better may exist")
    if why is not False and result.why is None and result.left_out:
        note(f"what limits cost: left out, {result.left_out}; a larger --time-limit gives more time")
    if result.proof.complete and stability and result.stability is None:
        note("stability: not searched; it was interrupted, or the cluster is heterogeneous")
    if why is None and result.why is None and result.proof.candidates > EXPLAINED and not result.compared:
        note("why: left out, the space is large; --why asks for it")


def _show_training(result: PlanResult, wanted: _Written, *, simpler: bool) -> None:
    """Write and print a training plan."""
    taken = result.choice.scenario if simpler and result.choice is not None else result.scenario
    if wanted.output is not None:
        _write(taken, wanted.output)
    if wanted.html is not None or not wanted.as_json:
        from windtunnel.views.plan import view

        drawn = view(result)
        draw(drawn, wanted.html, terminal=False)
    _export(result, taken, drawn if not wanted.as_json else None, wanted)


def _show_serving(result: ServingPlan, wanted: _Written, *, simpler: bool) -> None:
    """Write and print a deployment."""
    if not result.proof.complete:
        gap = result.proof.gap
        how = "not every deployment was bounded" if gap is None else f"one up to {100 * gap:.1f} % better may exist"
        note(f"stopped: the best deployment so far follows; {how}")
    taken = (result.simpler_scenario if simpler else None) or result.scenario
    if wanted.output is not None:
        _write(taken, wanted.output)
    if wanted.html is not None or not wanted.as_json:
        from windtunnel.views.plan_serving import view

        drawn = view(result)
        draw(drawn, wanted.html, terminal=False)
    _export(result, taken, drawn if not wanted.as_json else None, wanted)


def _export(result: PlanResult | ServingPlan, taken: dict[str, Any], drawn: View | None, wanted: _Written) -> None:
    """Print a plan, and write its launch files: where they are refused, the plan stands first and then the reason.

    Args:
        result: what was found.
        taken: scenario that is written out.
        drawn: the plan for the terminal; None: JSON is printed.
        wanted: what to write.
    """
    from windtunnel.errors import BadInput, Infeasible
    from windtunnel.training.results.serialise import plain

    exported: Exported | None = None
    refused: BadInput | Infeasible | None = None
    try:
        exported = write_launch_files(plain(taken), (), *wanted.launch)
    except (BadInput, Infeasible) as error:
        refused = error
    if drawn is not None:
        draw(drawn)
    else:
        more = {"export": exported.to_dict()} if exported else {"export": {"refused": str(refused)}} if refused else {}
        print_json(result.to_dict() | more)
    if refused is not None:
        raise refused
    end_export(exported, force=wanted.force)


def _write(found: dict[str, Any], output: Path) -> None:
    import yaml

    from windtunnel.training.results.serialise import plain

    write_text(output, yaml.safe_dump(plain(found), sort_keys=False, width=100))
    note(f"scenario  {output}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "plan examples/search/llama3-70b-64xh100.yaml",
            "plan my.yaml --set search.space.tp=[2,4,8] --set search.space.recompute=[none,full]",
            "plan my.yaml --output best.yaml --json",
            "plan my.yaml --html report.html --stability",
            "plan imported.yaml --free",
            "plan my.yaml --time-limit 120",
            "plan examples/search/serving-qwen3-32b-rate.yaml",
            "plan my.yaml --export megatron --wrapper slurm",
            "plan my.yaml --set cluster.device=any",
            "plan my-serving.yaml --export vllm --wrapper kubernetes",
        )
    )(plan)
