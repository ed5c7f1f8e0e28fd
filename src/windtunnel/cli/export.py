"""`--export` and its companions, for commands that end with a plan. Nothing heavy is imported before it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from windtunnel.cli.output import note, progress

if TYPE_CHECKING:
    from windtunnel.exporters.launch import Exported
    from windtunnel.scenarios.source import Source

ExportTarget = Annotated[
    str | None,
    typer.Option(
        "--export",
        metavar="TARGET",
        help="Write launch files: megatron, torchtitan, deepspeed, megatron_bridge; for serving vllm, sglang, trtllm.",
    ),
]
TargetVersion = Annotated[
    str | None, typer.Option(metavar="VERSION", help="With --export: version of the target; absent: the newest.")
]
ExportDir = Annotated[Path, typer.Option(metavar="FOLDER", help="With --export: where the files go.")]
Wrapper = Annotated[str, typer.Option(metavar="WRAPPER", help="With --export: torchrun, slurm or kubernetes.")]
ServerTarget = Annotated[
    str | None,
    typer.Option("--export", metavar="TARGET", help="Write launch files and the load: vllm, sglang, trtllm."),
]
ServerWrapper = Annotated[str, typer.Option(metavar="WRAPPER", help="With --export: none, slurm or kubernetes.")]
Force = Annotated[
    bool, typer.Option("--force", help="With --export: exit 0 though the plan does not fit or cannot be said in full.")
]


def check_export(target: str | None, version: str | None, wrapper: str, *, force: bool = False) -> None:
    """Refuse settings of an export that was not asked for, before anything is simulated.

    Raises:
        BadInput: settings without `--export`.
    """
    if target is None and (force or version is not None or wrapper not in ("torchrun", "none")):
        from windtunnel.errors import BadInput

        raise BadInput("--target-version, --wrapper and --force say how --export writes: name a target with --export")


def check_one_cluster(source: Source, overrides: tuple[str, ...]) -> None:
    """Refuse an export for heterogeneous clusters before a search, not after it.

    Raises:
        BadInput: the scenario has groups, or cannot be read.
    """
    from windtunnel.catalog.load import load
    from windtunnel.errors import BadInput, Problem
    from windtunnel.specs.cluster import MixedClusterRef

    if isinstance(load(source, overrides)[0].cluster, MixedClusterRef):
        raise BadInput(Problem("cluster.groups", "`--export` does not write launch files for heterogeneous clusters"))


def write_launch_files(
    source: Source, overrides: tuple[str, ...], target: str | None, version: str | None, folder: Path, wrapper: str
) -> Exported | None:
    """Export when a target is named, and say on standard error what was written and what could not be.

    Raises:
        BadInput: settings without `--export`; everything that the exporter refuses.
    """
    check_export(target, version, wrapper)
    if target is None:
        return None
    from windtunnel.exporters import launch

    with progress("exporting"):
        exported = launch.export(source, target, version, folder, cast("launch.Wrapper", wrapper), overrides=overrides)
    for path in exported.files:
        note(f"export  {path}")
    for item in exported.misfits:
        note(f"does not fit: {item}")
    for item in exported.unsupported:
        note(f"not expressible in {target}: {item}")
    for item in exported.notes:
        note(f"note: {item}")
    return exported


def end_export(exported: Exported | None, *, force: bool) -> None:
    """End a command whose launch files start something else than what was simulated, unless that is accepted.

    Raises:
        Exit: 3, where the plan does not fit or the target cannot express all of it.
    """
    if exported is None or force or not (exported.misfits or exported.unsupported):
        return
    why = ["does not fit"] * bool(exported.misfits) + ["is not written in full"] * bool(exported.unsupported)
    note(f"the exported plan {' and '.join(why)}, as the files say at their head; --force accepts that")
    raise typer.Exit(3)
