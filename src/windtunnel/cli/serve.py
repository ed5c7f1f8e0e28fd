"""`windtunnel serve`: simulate a deployment request by request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windtunnel.cli.options import AsJson, Overrides, Scenario, examples
from windtunnel.cli.output import check_targets, console, note, print_json, progress
from windtunnel.cli.sources import scenario_source

if TYPE_CHECKING:
    from windtunnel.serving.results import ServingResult


def serve(
    scenario: Scenario,
    overrides: Overrides = None,
    as_json: AsJson = False,
    requests: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a table of all requests (.csv, .json or .parquet).")
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a one-file HTML report.")] = None,
) -> None:
    """Simulate serving request by request: TTFT, TPOT, goodput, cache, and why."""
    check_targets(requests, report, inputs=[scenario])
    from windtunnel import api

    with progress("simulating"):
        result = api.simulate_serving(scenario_source(scenario), overrides=tuple(overrides or ()))
    if requests is not None:
        _write_table(result, requests)
    if report is not None:
        from windtunnel.report import html_serving

        note(f"report  {html_serving.write(result, report)}")
    if as_json:
        print_json(result.to_dict())
        return
    from windtunnel.report.serving import summary

    console().print(summary(result))


def _write_table(result: ServingResult, path: Path) -> None:
    frame = result.to_frame()
    if path.suffix == ".json":
        frame.to_json(path, orient="records", indent=1)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    note(f"requests  {path}")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command(
        epilog=examples(
            "serve examples/serving/llama3-70b-4xh100.yaml",
            "serve my.yaml --set serving.traffic.rate_per_s=8 --json",
            "serve my.yaml --report report.html --requests requests.csv",
        )
    )(serve)
