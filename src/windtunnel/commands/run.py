"""`run`: a whole training run, through failures, to its last step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Draws, InSweeps, Listener, Question, with_snippet
from windtunnel.commands.explanations import of_step
from windtunnel.commands.train import SNIPPET as STEP
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.runs.results import RunResult
    from windtunnel.runs.search import RunSearchResult

SNIPPET = f"""\
{STEP}run:
  tokens: 1T
"""


@with_snippet(SNIPPET)
def run(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    full: bool = True,
    listener: Listener = SILENT,
    log: str | Path | None = None,
    processes: int = 1,
) -> RunResult:
    """Predict days, failures, checkpoints, money, energy and carbon of a run.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        full: Also simulate what would change the days.
        listener: Is notified of the planner's search and its choice.
        log: CSV of steps and incidents so far, of a run under way.
        processes: Processes in which long replications are run; the result is the same.

    Raises:
        BadInput: everything wrong with the scenario or the log, at once.
        Infeasible: no replication ends within `run.limit_days`.
    """
    from windtunnel.commands.open_plan import planned
    from windtunnel.runs.simulate import forecast_run, simulate_run

    taken = planned(source, overrides, listener)
    if log is not None:
        return forecast_run(taken.source, Path(log), overrides=taken.overrides, sensitivities=full)
    return simulate_run(taken.source, overrides=taken.overrides, sensitivities=full, processes=processes)


@with_snippet(SNIPPET)
def search(source: Source, overrides: Sequence[str] = (), *, listener: Listener = SILENT) -> RunSearchResult:
    """The best save interval, spares and checkpoint tiers of a run; see `windtunnel.runs.search.search_run`."""
    from windtunnel.commands.open_plan import planned
    from windtunnel.runs.search import search_run

    taken = planned(source, overrides, listener)
    return search_run(taken.source, overrides=taken.overrides)


def _seed(question: Question) -> dict[str, Any]:
    return {"run.seed": question.number("run", "seed", 0) + 1 + (question.draw or 0)}


COMMANDS.add(
    "run",
    Command(
        id="run",
        needs=(("training",), ("run",)),
        run=run,
        result="windtunnel.runs.results:RunResult",
        view="run",
        figures=(
            "days", "ideal_days", "goodput", "ettr", "badput", "failures_mean", "restarts_mean", "checkpoint", "spares",
            "cost", "currency", "energy_kwh", "carbon_kg",
        ),
        main="days",
        own_section="run",
        snippet=SNIPPET,
        draws=Draws(what="the seed of failures", settings=_seed),
        explained_by=of_step,
        sweep=InSweeps(cell_cpu_s=0.5, objectives=("days_mean", "cost")),
    ),
)  # fmt: skip
