"""`fit`: whether a plan fits into memory, and what would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, InSweeps, Listener, with_snippet
from windtunnel.commands.train import SNIPPET
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.planner.memory_fit import FitResult


@with_snippet(SNIPPET)
def run(source: Source, overrides: Sequence[str] = (), *, full: bool = True, listener: Listener = SILENT) -> FitResult:
    """Does it fit; the largest micro-batch that does; the fewest devices.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.commands.open_plan import planned
    from windtunnel.planner.memory_fit import memory_fit
    from windtunnel.specs.cluster import refuse_groups
    from windtunnel.specs.run_phases import refuse_run
    from windtunnel.techniques import applied
    from windtunnel.training.predict import prepare

    del full
    taken = planned(source, overrides, listener)
    prepared, scenario = prepare(taken.source, overrides=taken.overrides)
    refuse_groups(prepared.cluster, "`fit`")
    refuse_run(prepared.training.run, "`fit`")
    return memory_fit(prepared, scenario.plan, applied(scenario.techniques))


COMMANDS.add(
    "fit",
    Command(
        id="fit",
        needs=(("training",),),
        run=run,
        result="windtunnel.planner.memory_fit:FitResult",
        view="fit",
        figures=("fits", "reserved_bytes", "capacity_bytes", "over_bytes", "largest_mbs", "fewest_devices", "changes"),
        main="reserved_bytes",
        snippet=SNIPPET,
        sweep=InSweeps(cell_cpu_s=0.5, objectives=("reserved_bytes",)),
    ),
)
