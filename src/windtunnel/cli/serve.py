"""`windtunnel serve`: simulate a deployment request by request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windtunnel.cli.export import (
    ExportDir,
    Force,
    ServerTarget,
    ServerWrapper,
    TargetVersion,
    check_export,
    end_export,
    write_launch_files,
)
from windtunnel.cli.options import AsJson, Cite, Overrides, Scenario, Verbose, examples
from windtunnel.cli.output import check_targets, draw, listener, note, print_json, progress, telling, write_references
from windtunnel.cli.sources import scenario_source

if TYPE_CHECKING:
    from windtunnel.scenarios.source import Source
    from windtunnel.serving.results.serving_result import ServingResult

_TABLES = (".csv", ".json", ".parquet")


def serve(
    scenario: Scenario,
    overrides: Overrides = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    requests: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a table of all requests (.csv, .json or .parquet).")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report.")] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the run as Chrome JSON (ui.perfetto.dev opens it; .gz works)."),
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="AXIS=LOADS",
            help="Run many loads and find the knee: rate=0.5..8, concurrency=1,8,64, time_scale=…; or values of any "
            "field: serving.precision.weights=bf16,fp8.",
        ),
    ] = None,
    points: Annotated[
        int | None, typer.Option(metavar="N", help="With --sweep and a range: how many loads (9).", show_default=False)
    ] = None,
    linear: Annotated[
        bool, typer.Option("--linear", help="With --sweep and a range: evenly spaced, not by equal factors.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("-j", "--jobs", min=1, max=1024, help="With --sweep: processes for its points; same result."),
    ] = None,
    cite: Cite = None,
    export: ServerTarget = None,
    target_version: TargetVersion = None,
    export_dir: ExportDir = Path("launch"),
    wrapper: ServerWrapper = "none",
    force: Force = False,
) -> None:
    """Simulate serving request by request: TTFT, TPOT, goodput, why."""
    check_targets(requests, report, trace, cite, inputs=[scenario])
    _check(requests, trace, sweep, (points, jobs), linear=linear)
    check_export(export, target_version, wrapper, force=force)
    if sweep is not None:
        asked = _AskedSweep(sweep, points, linear, jobs or 1, report, as_json)
        _sweep(scenario_source(scenario), tuple(overrides or ()), asked)
        return
    from windtunnel.commands.serve import run

    source, changes = scenario_source(scenario), tuple(overrides or ())
    exported = write_launch_files(source, changes, export, target_version, export_dir, wrapper)
    with listener("simulating") as told:
        result = run(source, changes, listener=told)
    if cite is not None:
        write_references(cite, result.techniques, result.citations)
    if requests is not None:
        _write_table(result, requests)
    if trace is not None:
        from windtunnel.exporters import perfetto_serving

        note(f"trace   {perfetto_serving.write(result, trace)}  (open in ui.perfetto.dev)")
    if report is not None or not as_json:
        from windtunnel.views.serve import view

        draw(view(result), report, terminal=not as_json)
    if as_json:
        print_json(result.to_dict() | ({"export": exported.to_dict()} if exported else {}))
    end_export(exported, force=force)


def _check(
    requests: Path | None,
    trace: Path | None,
    sweep: str | None,
    of_sweep: tuple[int | None, int | None],
    *,
    linear: bool,
) -> None:
    """Refuse options that do not go together, all at once; `of_sweep` holds points and processes."""
    from windtunnel.errors import BadInput

    problems = []
    if sweep is None:
        points, jobs = of_sweep
        given = (("--points", points is not None), ("--linear", linear), ("--jobs", jobs is not None))
        problems += [f"{name}: is read with --sweep alone" for name, told in given if told]
    else:
        files = (("--requests", requests), ("--trace", trace))
        problems += [f"{name} = {file}: is of one run; leave it out with --sweep" for name, file in files if file]
    if requests is not None and requests.suffix not in _TABLES:
        problems.append(f"--requests = {requests}: must end in {', '.join(_TABLES)}")
    elif requests is not None and requests.suffix == ".parquet" and not _has_parquet():
        problems.append(f"--requests = {requests}: needs pyarrow (pip install pyarrow); .csv and .json need nothing")
    if problems:
        raise BadInput("\n".join(problems))


def _has_parquet() -> bool:
    from importlib.util import find_spec

    return any(find_spec(name) is not None for name in ("pyarrow", "fastparquet"))


@dataclass(frozen=True, slots=True)
class _AskedSweep:
    """What `--sweep` was asked for."""

    axis: str
    points: int | None
    linear: bool
    processes: int
    report: Path | None
    as_json: bool


def _sweep(source: Source, overrides: tuple[str, ...], asked: _AskedSweep) -> None:
    from windtunnel import api
    from windtunnel.serving.sweeps.field_sweep import is_field
    from windtunnel.views.serve_sweep import view

    if is_field(asked.axis):
        _sweep_field(source, overrides, asked)
        return
    with telling("simulating loads") as say:
        result = api.sweep_serving(
            source,
            asked.axis,
            points=asked.points,
            linear=asked.linear,
            overrides=overrides,
            report=lambda runs: say(f"{runs} runs"),
            processes=asked.processes,
        )
    if asked.report is not None:
        changes = (*overrides, *result.as_overrides())
        with progress("simulating the knee"):
            at = api.simulate_serving(source, overrides=changes)
        draw(view(result, at), asked.report, terminal=False)
    if asked.as_json:
        print_json(result.to_dict())
    else:
        draw(view(result))


def _sweep_field(source: Source, overrides: tuple[str, ...], asked: _AskedSweep) -> None:
    from windtunnel import api
    from windtunnel.views.serve_sweep import field_view

    with telling("simulating values") as say:
        result = api.sweep_serving_field(
            source,
            asked.axis,
            points=asked.points,
            linear=asked.linear,
            overrides=overrides,
            report=lambda runs: say(f"{runs} runs"),
            processes=asked.processes,
        )
    draw(field_view(result), asked.report, terminal=not asked.as_json)
    if asked.as_json:
        print_json(result.to_dict())


def _write_table(result: ServingResult, path: Path) -> None:
    from windtunnel.files import writing

    frame = result.to_frame()
    if path.suffix == ".parquet":
        with writing.open_bytes(path, "--requests") as stream:
            stream.write(frame.to_parquet(index=False))
    else:
        with writing.open_text(path, "--requests") as text:
            if path.suffix == ".json":
                frame.to_json(text, orient="records", indent=1)
            else:
                frame.to_csv(text, index=False, lineterminator="\n")
    note(f"requests  {path}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "serve examples/serving/llama3-70b-4xh100.yaml",
            "serve my.yaml --set serving.traffic.rate_per_s=8 --json",
            "serve my.yaml --sweep rate=0.5..8 --report sweep.html",
            "serve my.yaml --report report.html --trace trace.json --requests requests.csv",
            "serve my.yaml --export vllm --export-dir launch --wrapper kubernetes",
        )
    )(serve)
