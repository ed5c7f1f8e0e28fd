"""Launch files of a scenario, for entry points that predict nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from windtunnel.commands.base import SILENT, Listener
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.exporters.launch import Exported, Wrapper


def write_launch_files(
    source: Source,
    target: str,
    folder: Path,
    *,
    overrides: Sequence[str] = (),
    wrapper: Wrapper = "torchrun",
    listener: Listener = SILENT,
) -> Exported:
    """Write the launch files of a scenario's plan; a plan that it leaves open is the planner's choice.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        target: Training program or serving engine, as `windtunnel.exporters.launch.export` knows them.
        folder: Where the files go.
        overrides: Settings `key=value` as `--set` takes them.
        wrapper: Who puts the script on the nodes.
        listener: Is notified of the planner's choice.

    Raises:
        BadInput: everything wrong with the scenario, or what the target refuses.
    """
    from windtunnel.commands.open_plan import planned
    from windtunnel.exporters.launch import export

    taken = planned(source, overrides, listener)
    return export(taken.source, target, None, folder, wrapper, overrides=taken.overrides)
