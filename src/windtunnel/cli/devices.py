"""`windtunnel devices`: what the catalogue knows of accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress
from windtunnel.cli.tables import fields_table, listing

if TYPE_CHECKING:
    from windtunnel.specs.device import DeviceSpec


def devices(
    device: Annotated[
        str | None,
        typer.Argument(metavar="ID", autocompletion=complete.devices, help="Show one device.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List devices, or show one with the source of every number."""
    from windtunnel import catalog

    if device is not None:
        spec = catalog.device(device)
        data = spec.model_dump(mode="json")
        if as_json:
            print_json(data)
            return
        values = {k: v for k, v in _flat(data).items() if v not in (None, "", [], ())}
        console().print(fields_table(f"{spec.id}  {spec.name}", values, spec.sources))
        return
    with progress("reading the catalogue"):
        specs = [catalog.device(known) for known in catalog.devices()]
    if as_json:
        print_json([_row(spec) for spec in specs])
        return
    rows = [
        (
            spec.id,
            spec.name,
            spec.generation,
            f"{spec.memory_bytes / 2**30:.0f}",
            f"{spec.memory_bytes_per_s / 1e12:.2f}",
            _peak(spec, "bf16"),
            _peak(spec, "fp8"),
            f"{spec.tdp_w:.0f}" if spec.tdp_w else "",
        )
        for spec in specs
    ]
    heads = ("device", "name", "generation", "GiB", "TB/s", "bf16 TFLOP/s", "fp8 TFLOP/s", "W")
    console().print(listing(heads, rows, drop=("name", "generation", "fp8 TFLOP/s", "W")))


def _flat(data: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in data.items():
        if key in ("id", "name", "sources"):
            continue
        out |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return out


def _row(spec: DeviceSpec) -> dict[str, Any]:
    names = ("id", "name", "vendor", "kind", "generation", "memory_bytes", "memory_bytes_per_s", "tdp_w", "as_of")
    return {name: getattr(spec, name) for name in names} | {"peak_flop_per_s": dict(spec.peak_flop_per_s)}


def _peak(spec: DeviceSpec, number_format: str) -> str:
    rate = {str(k): v for k, v in spec.peak_flop_per_s.items()}.get(number_format)
    return f"{rate / 1e12:,.0f}" if rate else ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("devices", "devices h100-sxm-80gb", "devices h100-sxm-80gb --json"))(devices)
