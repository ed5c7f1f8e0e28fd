"""`serve --sweep` in processes: the loads of an axis, or the values of a field, under the supervisor of sweeps.

A row carries the whole result, so that what `serve --sweep` says of its loads is the same as in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, Infeasible, WindtunnelError
from windtunnel.sweeps.cells import Cell
from windtunnel.sweeps.executors import Task
from windtunnel.sweeps.executors.processes import Processes

if TYPE_CHECKING:
    from windtunnel.scenarios.source import Source
    from windtunnel.serving.deployment import Deployment
    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.serving.sweeps.field_sweep import FieldAxis
    from windtunnel.serving.sweeps.load_sweep import Axis
    from windtunnel.sweeps.compute import Row


@dataclass(frozen=True, slots=True)
class _Asked:
    """A scenario and what varies, as every process is given it."""

    source: Source
    overrides: tuple[str, ...]
    axis: Axis | FieldAxis

    def computer(self) -> _Points:
        """See `executors.Job`."""
        return _Points(self)

    def crashed(self, task: Task, reason: str) -> Row:
        """See `executors.Job`."""
        return {"number": task.number, "found": WindtunnelError(reason), "wall_s": 0.0}


@dataclass(slots=True)
class _Points:
    """Runs points in one process; a deployment is resolved once for all loads."""

    asked: _Asked
    _deployment: list[Deployment] = field(default_factory=list)

    def row(self, cell: Cell, attempt: int = 1) -> Row:
        """One load or value with its result, or with the error that it ended in."""
        del attempt
        begun = time.perf_counter()
        number = int(cell.id)
        found: Any
        try:
            found = self._run(number)
        except Exception as error:  # told where it was asked for
            found = error
        return {"number": number, "found": found, "wall_s": time.perf_counter() - begun}

    def _run(self, number: int) -> ServingResult | BadInput | Infeasible:
        from windtunnel.serving.deployment import prepare
        from windtunnel.serving.sweeps.field_sweep import FieldAxis, with_value
        from windtunnel.serving.sweeps.load_sweep import loaded, serve_once, slim

        asked, axis = self.asked, self.asked.axis
        if isinstance(axis, FieldAxis):
            return with_value(asked.source, axis, axis.values[number], asked.overrides)
        if not self._deployment:
            self._deployment.append(prepare(asked.source, overrides=asked.overrides))
        return slim(serve_once(loaded(self._deployment[0], axis.name, axis.loads[number])))


def points_in(
    processes: int, source: Source, axis: Axis | FieldAxis, overrides: Sequence[str]
) -> Callable[[], Iterator[tuple[Any, Any]]] | None:
    """Runs of all points of an axis in processes, as `elsewhere` of `serving.sweeps` takes them; None for one process.

    Args:
        processes: At most; no more than there are points.
        source: The scenario.
        axis: Of loads, or of a field.
        overrides: Settings.
    """
    from windtunnel.serving.sweeps.field_sweep import FieldAxis

    values: Sequence[Any] = axis.values if isinstance(axis, FieldAxis) else axis.loads
    if min(processes, len(values)) < 2:
        return None

    def run() -> Iterator[tuple[Any, Any]]:
        executor = Processes(min(processes, len(values)))
        tasks = [Task(Cell(str(i), (), None), number=i) for i in range(len(values))]
        for rows in executor.run(_Asked(source, tuple(overrides), axis), tasks):
            for row in rows:
                found = row["found"]
                if isinstance(found, Exception) and not isinstance(axis, FieldAxis):
                    raise found
                if isinstance(found, Exception) and not isinstance(found, BadInput | Infeasible):
                    raise found
                yield values[row["number"]], found

    return run
