"""`memory`: the memory of `train`'s step over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands import train as train_command
from windtunnel.commands.base import SILENT, Command, Listener
from windtunnel.commands.explanations import of_step
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult


@dataclass(frozen=True, slots=True)
class WithCurves:
    """A step with its memory over time."""

    result: TrainingResult

    def to_dict(self) -> dict[str, Any]:
        """As `train --json --curves`, without the trace."""
        out: dict[str, Any] = self.result.to_dict(curves=True)
        return {name: value for name, value in out.items() if name != "trace"}


def run(source: Source, overrides: Sequence[str] = (), *, full: bool = True, listener: Listener = SILENT) -> WithCurves:
    """As `train`, with the curves of memory, which the trace of the step gives."""
    del full
    return WithCurves(train_command.run(source, overrides, listener=listener, trace=True))


COMMANDS.add(
    "memory",
    Command(
        id="memory",
        needs=(("training",),),
        run=run,
        result="windtunnel.commands.memory:WithCurves",
        view="",
        main="step_time_s",
        snippet=train_command.SNIPPET,
        explained_by=of_step,
        part_of="train",
    ),
)
