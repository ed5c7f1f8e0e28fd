"""`advise`: which published techniques would help a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Listener, with_snippet
from windtunnel.commands.train import SNIPPET
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.advice import Advice


@with_snippet(SNIPPET)
def run(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    full: bool = True,
    listener: Listener = SILENT,
    objective: str | None = None,
    pairs: bool = True,
) -> Advice:
    """Try every technique that applies; see `windtunnel.advice.advise`.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`; trained, or served where it has a
            `serving` section alone.
        overrides: Settings `key=value` as `--set` takes them.
        full: Changes nothing.
        listener: Is notified of the planner's choice, and counts changes tried and to try.
        objective: time, memory, energy, money; of serving throughput, goodput, ttft, tpot, e2e, energy, money.
        pairs: Also try promising ones two by two.

    Raises:
        BadInput: everything wrong with the scenario.
    """
    from windtunnel.advice import advise
    from windtunnel.commands.open_plan import planned

    del full
    taken = planned(source, overrides, listener)
    return advise(taken.source, overrides=taken.overrides, objective=objective, pairs=pairs, report=listener.count)


COMMANDS.add(
    "advise",
    Command(
        id="advise",
        needs=(("training", "serving"),),
        run=run,
        result="windtunnel.advice:Advice",
        view="advise",
        figures=("bottleneck", "objective", "suggestions", "settings", "pairs"),
        main="suggestions",
        snippet=SNIPPET,
    ),
)
