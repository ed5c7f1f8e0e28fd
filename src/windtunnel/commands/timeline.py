"""`timeline`: the simulated step of `train`, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from windtunnel.commands import COMMANDS
from windtunnel.commands import train as train_command
from windtunnel.commands.base import SILENT, Command, Listener
from windtunnel.commands.explanations import of_step
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult


def run(
    source: Source, overrides: Sequence[str] = (), *, full: bool = True, listener: Listener = SILENT, trace: bool = True
) -> TrainingResult:
    """As `train`, with the trace of the step."""
    return train_command.run(source, overrides, full=full, listener=listener, trace=trace)


COMMANDS.add(
    "timeline",
    Command(
        id="timeline",
        needs=(("training",),),
        run=run,
        result="windtunnel.training.results.training_result:TrainingResult",
        view="timeline",
        main="step_time_s",
        snippet=train_command.SNIPPET,
        explained_by=of_step,
        part_of="train",
    ),
)
