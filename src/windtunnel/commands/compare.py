"""`compare`: where the difference between two training scenarios comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.commands import COMMANDS
from windtunnel.commands import train as train_command
from windtunnel.commands.base import SILENT, Command, Listener
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.training.comparison import Comparison


def run(a: Source, b: Source, *, listener: Listener = SILENT) -> Comparison:
    """Predict both, each as `train` does, and compare them class by class."""
    from windtunnel.training.comparison import difference

    return difference(train_command.run(a, listener=listener), train_command.run(b, listener=listener))


COMMANDS.add(
    "compare",
    Command(
        id="compare",
        needs=(("training",),),
        run=run,
        result="windtunnel.training.comparison:Comparison",
        view="compare",
        figures=("a_step_time_s", "b_step_time_s", "ratio", "differences"),
        main="ratio",
        snippet=train_command.SNIPPET,
        scenarios=2,
    ),
)
