"""`windtunnel validate`: predict measured rows and report the error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress

if TYPE_CHECKING:
    from collections.abc import Sequence

_GATES = ("mape", "median_ape", "bias", "coverage80")


def validate(
    rows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Measured rows (JSON list); absent: the rows we ship.")
    ] = None,
    family: Annotated[list[str] | None, typer.Option(help="Only these families (repeatable).")] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=LIMIT", help="Exit 4 when a summary figure is beyond: mape=0.12 (repeatable)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict measured rows and report the error.

    One line a family, device and metric: rows predicted, mean and median absolute error, bias, interval coverage.
    """
    limits = _limits(gate or ())
    from windtunnel import api
    from windtunnel.errors import BadInput, GateFailed

    with progress("predicting rows") as advance:
        report: dict[str, Any] = api.validate(rows, families=tuple(family or ()), progress=advance)
    if not report["summary"]:
        raise BadInput("validate: no rows" + (f" of family {', '.join(family)}" if family else ""))
    if as_json:
        print_json(report)
    else:
        _show(report)
    failed = _beyond(report["summary"], limits)
    if failed:
        raise GateFailed("\n".join(failed))


def _limits(gates: Sequence[str]) -> dict[str, float]:
    from windtunnel.errors import BadInput

    out, wrong = {}, []
    for gate in gates:
        key, _, value = gate.partition("=")
        try:
            if key not in _GATES:
                raise ValueError(key)
            out[key] = float(value)
        except ValueError:
            wrong.append(f"--gate = {gate}: must be KEY=NUMBER with a key of {', '.join(_GATES)}")
    if wrong:
        raise BadInput("\n".join(wrong))
    return out


def _beyond(summary: Sequence[dict[str, Any]], limits: dict[str, float]) -> list[str]:
    """Lines for the groups whose figure is beyond its limit; coverage is a floor, the others are ceilings."""
    out = []
    for entry in summary:
        group = "/".join(str(entry.get(k)) for k in ("row_kind", "family", "device", "metric"))
        for key, limit in limits.items():
            value = entry.get(key)
            if value is None:
                continue
            if value < limit if key == "coverage80" else abs(value) > limit:
                out.append(f"{group}: {key} = {value:.4f} is beyond {limit:g}")
    return out


def _show(report: dict[str, Any]) -> None:
    from windtunnel.cli.tables import listing

    rows = []
    for entry in report["summary"]:
        rows.append(
            (
                entry["family"],
                entry["device"],
                entry["metric"],
                f"{entry['n_predicted']} of {entry['n']}",
                *(_percent(entry.get(key)) for key in ("mape", "median_ape", "bias", "coverage80")),
            )
        )
    predicted = sum(entry["n_predicted"] for entry in report["summary"])
    total = sum(entry["n"] for entry in report["summary"])
    console().print(listing(("family", "device", "metric", "predicted", "MAPE", "median", "bias", "in 80 %"), rows))
    console().print(f"\n{predicted:,} of {total:,} measured values predicted; `--json` gives each with its reason")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("validate", "validate --rows rows.json --json", "validate --gate mape=0.12"))(validate)
