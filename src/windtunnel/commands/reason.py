"""`reason`: strategies of inference as programs of model calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Draws, InSweeps, Listener, Question, with_snippet
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.programs.result import ReasonResult

SNIPPET = """\
programs:
  problems: 50
  offline: true
  strategies: [{best_of_n: {n: [1, 4], selector: checker}}]
  input_tokens: 200
  output_tokens: 300
population:
  pass_1: 0.4
"""


@with_snippet(SNIPPET)
def run(
    source: Source, overrides: Sequence[str] = (), *, full: bool = True, listener: Listener = SILENT
) -> ReasonResult:
    """Compare strategies; with `programs.plans: planner` the serving planner is asked first.

    See `windtunnel.programs.simulate.simulate_programs`.
    """
    from windtunnel.programs.simulate import simulate_programs
    from windtunnel.scenarios.load import load

    del full
    programs = load(source, overrides)[0].programs
    if programs is not None and programs.plans_by == "planner":
        from windtunnel.planner.plans_of_programs import on_planned

        return on_planned(source, overrides=overrides, report=listener.count)
    return simulate_programs(source, overrides=overrides, report=listener.count)


def _seed(question: Question) -> dict[str, Any]:
    return {"programs.seed": question.number("programs", "seed", 0) + 1 + (question.draw or 0)}


COMMANDS.add(
    "reason",
    Command(
        id="reason",
        needs=(("programs",),),
        run=run,
        result="windtunnel.programs.result:ReasonResult",
        view="reason",
        figures=("objective", "best", "limits", "population", "answers"),
        main="best",
        own_section="programs",
        snippet=SNIPPET,
        draws=Draws(what="the problems' seed", settings=_seed),
        sweep=InSweeps(cell_cpu_s=2.0, objectives=("best_cost_usd", "best_latency_s_p99")),
    ),
)
