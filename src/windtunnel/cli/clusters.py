"""`windtunnel clusters`: what the catalogue knows of clusters and node types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress
from windtunnel.cli.tables import fields_table, listing

if TYPE_CHECKING:
    from windtunnel.specs.cluster import ClusterSpec


def clusters(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete.clusters,
            help="Show one cluster; `8 x dgx-h100` works.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List clusters and node types, or show one."""
    from windtunnel import catalog

    if name is not None:
        spec = catalog.cluster(name)
        if as_json:
            print_json(spec.model_dump(mode="json"))
            return
        data = spec.model_dump(mode="json", exclude={"name", "device", "assumed"})
        values: dict[str, Any] = {"device": spec.device.id, "devices": spec.num_devices}
        for key, value in data.items():
            if isinstance(value, dict):
                kept = {k: v for k, v in value.items() if k not in ("sources", "aliases") and v not in (None, "")}
                values |= {f"{key}.{k}": v for k, v in kept.items()}
            elif value is not None:
                values[key] = value
        sources = {f"scale_up.{k}": v for k, v in spec.scale_up.sources.items()}
        sources |= {f"{field}": f"assumed: {why}" for field, _, why in spec.assumed}
        console().print(fields_table(spec.name, values, sources))
        return
    with progress("reading the catalogue"):
        specs = {known: catalog.cluster(known) for known in catalog.clusters()}
    if as_json:
        print_json(
            [
                {
                    "name": known,
                    "device": spec.device.id,
                    "nodes": spec.nodes,
                    "devices_per_node": spec.devices_per_node,
                    "num_devices": spec.num_devices,
                    "scale_up": spec.scale_up.id,
                    "scale_out": spec.scale_out.family,
                }
                for known, spec in specs.items()
            ]
        )
        return
    rows = [
        (
            known,
            spec.device.id,
            f"{spec.nodes:,} × {spec.devices_per_node}",
            spec.scale_up.id,
            _ports(spec),
        )
        for known, spec in specs.items()
    ]
    console().print(listing(("cluster", "device", "nodes", "scale-up", "scale-out per node"), rows))


def _ports(spec: ClusterSpec) -> str:
    out = spec.scale_out
    return f"{out.nics_per_node} × {out.nic_bytes_per_s * 8e-9:.0f} Gb/s {out.family}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("clusters", "clusters selene", 'clusters "8 x dgx-h100" --json'))(clusters)
