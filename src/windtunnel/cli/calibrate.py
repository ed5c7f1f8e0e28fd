"""`windtunnel calibrate`: a device profile of this machine, or from measurements of others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, examples
from windtunnel.cli.output import check_targets, console, note, print_json, progress

if TYPE_CHECKING:
    from windtunnel.calibration.profile import Calibration


_OUT = Path("machine.yaml")


def calibrate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILES", help="What --from reads.", show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The profile.")] = _OUT,
    ranks: Annotated[
        int, typer.Option(min=1, help="Processes that share the machine: each is one device of the profile.")
    ] = 1,
    kind: Annotated[str, typer.Option("--on", metavar="cpu|gpu|auto", help="What to measure.")] = "auto",
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Measurements; an interrupted run goes on from them. Absent: next to the profile.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="No new case starts later.")] = 300.0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot of measured against model (.html).", show_default=False)
    ] = None,
    from_logs: Annotated[
        Path | None,
        typer.Option(
            metavar="CSV",
            help="Fit to step times of your own instead: a row each, see docs/guide/calibrate-your-machine.md.",
            show_default=False,
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SOURCE",
            show_default=False,
            help="Read instead: aiconfigurator (operator tables of its package), nccl-tests (what it printed), "
            "kineto (a PyTorch trace), incidents (a CSV of failures, for run.failures), samples (attempts at problems, "
            "CSV or JSON, for population), results (of vllm bench, SGLang's bench, aiperf, GuideLLM, inference-perf or "
            "Prometheus, for a server; a file of results itself stands for it, the server's scenario comes last).",
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What a log's columns change, a trace or results are of, or tests ran on.",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    system: Annotated[
        str | None, typer.Option(metavar="NAME", help="aiconfigurator: h200_sxm …", show_default=False)
    ] = None,
    software: Annotated[
        str | None, typer.Option(metavar="NAME", help="aiconfigurator: vllm, sglang or trtllm.", show_default=False)
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="ID", help="nccl-tests: where it ran, of the catalogue.", show_default=False)
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="incidents: nodes that the log is of.", show_default=False)
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(min=1e-6, help="incidents: how long the log goes on; absent: from its times.", show_default=False),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="samples: only rows of this model.", show_default=False)
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="samples: only rows of this task.", show_default=False)
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="samples: only attempts drawn at it.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure this machine with PyTorch; write a device profile.

    `cluster.device` accepts the profile.

    Products, attention, element-wise kernels, the optimizer, launches, copies, and with --ranks collectives between
    processes. Close other programs first. With --from-logs or --from nothing is run: the profile comes from step times
    of your own, or from what another tool measured.
    """
    from windtunnel.cli.calibrate_from import Given, from_incidents, from_results, from_samples, imported, results_named
    from windtunnel.cli.calibrate_from import from_logs as fit_logs

    source, given_files, scenario = results_named(source, files or (), scenario)
    given = Given(
        source=source,
        files=given_files,
        logs=from_logs,
        scenario=scenario,
        overrides=tuple(overrides or ()),
        system=system,
        software=software,
        device=device,
        ranks=ranks,
        nodes=nodes,
        days=days,
        model=model,
        task=task,
        temperature=temperature,
    )
    given.check()
    if source == "incidents":
        from_incidents(given, Path("failures.yaml") if out == _OUT else out, as_json)
        return
    if source == "samples":
        from_samples(given, Path("population.yaml") if out == _OUT else out, as_json)
        return
    if source == "results":
        from_results(given, out, as_json)
        return
    if from_logs is not None:
        fit_logs(given, out, plot, as_json)
        return
    if source is not None:
        check_targets(out, plot, inputs=(*given.files, scenario))
        with progress("reading"):
            found = imported(given)
        _show(found, out, plot, as_json)
        return
    store = keep or out.with_suffix(".jsonl")
    check_targets(out, store, plot)
    _show(_measured(ranks, kind, store, seconds), out, plot, as_json)


def _measured(ranks: int, kind: str, store: Path, seconds: float) -> Calibration:
    """The profile of this machine, measured; measurements in `store` are taken over and kept there.

    Raises:
        BadInput: the kind of device is not known.
    """
    from windtunnel.calibration.session import calibrate as run
    from windtunnel.errors import BadInput, Problem

    if kind not in ("cpu", "gpu", "auto"):
        raise BadInput(Problem("--on", "must be cpu, gpu or auto", kind))
    with progress("measuring") as report:
        found = run(ranks=ranks, kind=kind, store=store, report=report, seconds=seconds)  # type: ignore[arg-type]
    note(f"measurements  {store}")
    return found


def _show(found: Calibration, out: Path, plot: Path | None, as_json: bool) -> None:
    """Write the profile and its plot, and say what is in it."""
    from windtunnel.calibration.profile import write

    write(found, out)
    note(f"profile       {out}  (cluster.device: {out.name})")
    if plot is not None:
        from windtunnel.calibration.text import calibration_figure

        calibration_figure(found).save(plot.with_suffix(".html") if not plot.suffix else plot)
        note(f"plot          {plot}")
    if as_json:
        print_json(found.to_dict())
        return
    from windtunnel.calibration.text import calibration_summary

    console().print(calibration_summary(found))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=examples(
            "calibrate",
            "calibrate --ranks 2 --out two.yaml --plot two.html",
            "calibrate --on gpu --out my-h200.yaml",
            "calibrate --from-logs steps.csv --scenario my.yaml --out mine.yaml",
            "calibrate --from nccl-tests all_reduce.txt all_gather.txt --device h100-sxm-80gb",
            "calibrate --from run-c8.json run-c64.json server.yaml --out my-server.yaml",
            "calibrate --from kineto trace.json.gz --scenario my.yaml",
            "calibrate --from incidents incidents.csv --nodes 2048 --days 54 --out failures.yaml",
            "calibrate --from samples attempts.csv --out population.yaml",
            "calibrate --from aiconfigurator --system h200_sxm --software vllm",
        )
    )(calibrate)
