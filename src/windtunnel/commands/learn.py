"""`learn`: algorithms that train a small task on the clock of a large target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Draws, InSweeps, Listener, Question, with_snippet
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.learning.results import LearningResult

SNIPPET = """\
learning:
  task: quadratic
  workers: 8
  algorithms: [local_sgd]
"""


@with_snippet(SNIPPET)
def run(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    full: bool = True,
    listener: Listener = SILENT,
    cache: bool = True,
) -> LearningResult:
    """Learn and time; see `windtunnel.learning.simulate.simulate_learning`.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        full: Changes nothing.
        listener: Is notified of the plan's choice, and counts curves.
        cache: Take curves that were learned before, and keep new ones.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.commands.open_plan import planned
    from windtunnel.learning.simulate import simulate_learning

    del full
    taken = planned(source, overrides, listener)
    return simulate_learning(taken.source, overrides=taken.overrides, cache=cache, report=listener.count)


def _seed(question: Question) -> dict[str, Any]:
    seed, runs = question.number("learning", "seed", 1), question.number("learning", "seeds", 1)
    return {"learning.seed": seed + runs * (1 + (question.draw or 0))}


COMMANDS.add(
    "learn",
    Command(
        id="learn",
        needs=(("learning",),),
        run=run,
        result="windtunnel.learning.results:LearningResult",
        view="learn",
        figures=(
            "time_to_target_s", "resolved", "bytes_per_worker_step", "utilisation", "staleness", "worker_steps_per_s",
        ),
        main="time_to_target_s",
        own_section="learning",
        snippet=SNIPPET,
        draws=Draws(what="the seeds", settings=_seed),
        sweep=InSweeps(cell_cpu_s=2.0, objectives=("time_to_target_s",)),
    ),
)  # fmt: skip
