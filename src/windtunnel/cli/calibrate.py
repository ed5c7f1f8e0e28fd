"""`windtunnel calibrate`: a device profile of this machine, or from measurements of others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, examples
from windtunnel.cli.output import check_targets, console, note, print_json, progress


def calibrate(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The profile.")] = Path("machine.yaml"),
    ranks: Annotated[
        int, typer.Option(min=1, help="Processes that share the machine: each is one device of the profile.")
    ] = 1,
    kind: Annotated[str, typer.Option("--on", metavar="cpu|gpu|auto", help="What to measure.")] = "auto",
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Measurements; an interrupted run goes on from them. Absent: beside the profile.",
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
            metavar="CSV", help="Fit to step times of your own instead: a row each, see docs/calibration.md.",
            show_default=False,
        ),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Scenario that the log's columns change.", show_default=False),
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Measure this machine with PyTorch and write a device profile that `cluster.device` accepts.

    Products, attention, element-wise kernels, the optimizer, launches, copies, and with --ranks collectives between
    processes. Close other programs first. With --from-logs, the few coefficients that step times of your own say
    something about, and nothing is run.
    """
    from windtunnel.errors import BadInput, Problem

    if from_logs is not None:
        _from_logs(from_logs, scenario, overrides or [], out, plot, as_json)
        return
    if scenario is not None or overrides:
        raise BadInput("--scenario and --set go with --from-logs; this machine is measured without a scenario")

    kept = keep or out.with_suffix(".jsonl")
    check_targets(out, kept, plot)
    if kind not in ("cpu", "gpu", "auto"):
        raise BadInput(Problem("--on", "must be cpu, gpu or auto", kind))
    from windtunnel.calibration.profile import write
    from windtunnel.calibration.session import calibrate as run

    with progress("measuring") as told:
        found = run(ranks=ranks, kind=kind, store=kept, report=told, seconds=seconds)  # type: ignore[arg-type]
    write(found, out)
    note(f"profile       {out}  (cluster.device: {out.name})")
    note(f"measurements  {kept}")
    if plot is not None:
        from windtunnel.calibration.text import calibration_figure

        calibration_figure(found).write_html(plot, include_plotlyjs=True)
        note(f"plot          {plot}")
    if as_json:
        print_json(found.to_dict())
        return
    from windtunnel.calibration.text import calibration_summary

    console().print(calibration_summary(found))


def _from_logs(
    logs: Path, scenario: Path | None, overrides: list[str], out: Path, plot: Path | None, as_json: bool
) -> None:
    from windtunnel.calibration.logs import read_logs
    from windtunnel.calibration.logs_fit import fit_logs
    from windtunnel.calibration.logs_text import log_dict, log_figure, log_summary
    from windtunnel.calibration.profile import write_device

    check_targets(out, plot, inputs=(logs, scenario))
    rows = read_logs(logs, scenario=None if scenario is None else str(scenario), overrides=overrides)
    with progress("fitting") as told:
        found = fit_logs(rows, logs.name, told)
    write_device(found.device, out, found.cluster)
    note(f"profile  {out}  (cluster.device: {out.name})")
    if plot is not None:
        log_figure(found).write_html(plot, include_plotlyjs=True)
        note(f"plot     {plot}")
    if as_json:
        print_json(log_dict(found))
        return
    console().print(log_summary(found))


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        epilog=examples(
            "calibrate",
            "calibrate --ranks 2 --out two.yaml --plot two.html",
            "calibrate --on gpu --out my-h200.yaml",
            "calibrate --from-logs steps.csv --scenario my.yaml --out mine.yaml",
        )
    )(calibrate)
