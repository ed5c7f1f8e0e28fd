"""`windtunnel models`: what the catalogue knows of model architectures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from windtunnel.cli import complete
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import console, print_json, progress
from windtunnel.cli.tables import fields_table, listing

if TYPE_CHECKING:
    from windtunnel.specs.model import ModelSpec


def models(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete.models,
            help="Show one model, or list those whose name contains this.",
            show_default=False,
        ),
    ] = None,
    family: Annotated[str | None, typer.Option(help="Only this family: dense, moe, mla_moe, hybrid, encoder …")] = None,
    as_json: AsJson = False,
) -> None:
    """List models, or show one with its source."""
    from windtunnel import catalog

    matching = [] if name is None or _is_known(name) else _containing(name)
    if name is not None and not matching:
        spec = catalog.model(name)
        data = spec.model_dump(mode="json", exclude_defaults=True) | {"kv_heads": spec.kv_heads}
        if as_json:
            print_json(spec.model_dump(mode="json"))
        else:
            source = spec.provenance
            console().print(fields_table(spec.name, {k: v for k, v in data.items() if k not in ("name", "provenance")}))
            if source is not None:
                console().print(f"\nsource: {source.source}{', ' + source.as_of if source.as_of else ''}")
        return
    with progress("reading the catalogue"):
        specs = [catalog.model(known) for known in matching or catalog.models()]
    specs = [spec for spec in specs if family in (None, spec.family)]
    if as_json:
        print_json([_row(spec) for spec in specs])
        return
    rows = [
        (
            spec.name,
            spec.family,
            spec.num_hidden_layers,
            spec.hidden_size,
            f"{spec.num_attention_heads}/{spec.kv_heads}",
            _experts(spec),
            _billions(spec),
        )
        for spec in specs
    ]
    console().print(
        listing(
            ("model", "family", "layers", "hidden", "heads/kv", "experts", "parameters"),
            rows,
            drop=("hidden", "heads/kv", "layers", "experts", "family"),
        )
    )


def _is_known(name: str) -> bool:
    from windtunnel import catalog
    from windtunnel.errors import BadInput

    try:
        catalog.model(name)
    except BadInput:
        return False
    return True


def _containing(part: str) -> list[str]:
    """Names of the catalogue that contain a part of one, whatever its case."""
    from windtunnel import catalog

    return [name for name in catalog.models() if part.casefold() in name.casefold()]


def _row(spec: ModelSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "family": spec.family,
        "num_hidden_layers": spec.num_hidden_layers,
        "hidden_size": spec.hidden_size,
        "num_parameters_published": spec.num_parameters_published,
        "source": spec.provenance.source if spec.provenance else None,
    }


def _experts(spec: ModelSpec) -> str:
    return f"{spec.num_experts_per_tok} of {spec.num_experts}" if spec.num_experts else ""


def _billions(spec: ModelSpec) -> str:
    """Parameters as published, else as counted from the dimensions."""
    from windtunnel.catalog.parameters import count_parameters
    from windtunnel.quantities import count

    total, active = spec.num_parameters_published, spec.num_active_parameters_published
    if not total:
        counted = count_parameters(spec)
        total, active = float(counted.total), float(counted.active) if spec.num_experts else None
    return count(total) + (f" ({count(active)} active)" if active else "")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=examples("models", "models --family moe", "models meta-llama/Llama-3.1-70B --json"))(models)
