"""`explain`: the chain from data sheet to second behind a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Listener, with_snippet
from windtunnel.commands.explanations import of_serving, of_step
from windtunnel.commands.train import SNIPPET
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.serving.explanation import ServingExplanation
    from windtunnel.training.explanation import Explanation


@with_snippet(SNIPPET)
def run(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    full: bool = True,
    listener: Listener = SILENT,
    against: str | float | Path | None = None,
) -> Explanation | ServingExplanation:
    """Explain a step, or the iterations of a scenario with `serving` alone.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        full: Changes nothing.
        listener: Is notified of the planner's search and its choice.
        against: A measured step in seconds (`14.6`, `"950ms"`), or the path of a PyTorch profiler trace of one rank.

    Raises:
        BadInput: everything wrong with the scenario; a trace that cannot be used.
    """
    from windtunnel.scenarios.load import is_serving

    del full
    if is_serving(source, overrides):
        return of_serving(source, overrides)
    return of_step(source, overrides, listener=listener, against=against)


def _view(result: Any) -> str:
    """Name of the view for a step or for a deployment."""
    return "explain_serving" if type(result).__name__ == "ServingExplanation" else "explain"


COMMANDS.add(
    "explain",
    Command(
        id="explain",
        needs=(("training", "serving"),),
        run=run,
        result="windtunnel.training.explanation:Explanation",
        view=_view,
        figures=("step_time_s", "bound_by", "breakdown", "statements"),
        main="step_time_s",
        snippet=SNIPPET,
    ),
)
