"""Processes that die before they can compute a cell: started again a few times, then one error."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import WindtunnelError
from windtunnel.sweeps.cells import Cell
from windtunnel.sweeps.compute import Row
from windtunnel.sweeps.executors import Task
from windtunnel.sweeps.executors.processes import STILLBORN, Processes


@dataclass(frozen=True, slots=True)
class Doubles:
    """Twice a task's number, in processes of which the first few die at their start."""

    folder: Path
    """Has one file for each process that was started."""
    dying: int
    how: str

    def computer(self) -> Doubles:
        """Dies where it is one of the first."""
        born = len(list(self.folder.iterdir()))
        (self.folder / f"{os.getpid()}").touch()
        if born < self.dying:
            if self.how == "raise":
                raise RuntimeError("no such table")
            if self.how == "exit":
                os._exit(7)
            os.kill(os.getpid(), signal.SIGKILL)
        return self

    def row(self, cell: Cell, attempt: int = 1) -> Row:
        """One row."""
        del attempt
        return {"twice": 2 * int(cell.id), "wall_s": 0.001}

    def crashed(self, task: Task, reason: str) -> Row:
        """No cell is to blame here."""
        raise AssertionError(reason)


def rows(job: Any) -> list[Row]:
    """Rows of five tasks in two processes."""
    tasks = [Task(Cell(str(i), (), None), number=i) for i in range(5)]
    return [row for fresh in Processes(2).run(job, tasks) for row in fresh]


@pytest.mark.parametrize(("how", "told"), [("raise", "RuntimeError: no such table"), ("exit", "exit code 7")])
def test_processes_that_die_at_their_start_end_the_work_with_one_error(tmp_path: Path, how: str, told: str) -> None:
    with pytest.raises(WindtunnelError, match=f"{STILLBORN} in a row died before their first cell.*{told}"):
        rows(Doubles(tmp_path, 1000, how))
    assert len(list(tmp_path.iterdir())) == STILLBORN


@pytest.mark.parametrize(("how", "dying"), [("exit", STILLBORN - 1), ("kill", STILLBORN + 1)])
def test_a_start_that_fails_less_often_costs_nothing(tmp_path: Path, how: str, dying: int) -> None:
    found = sorted(row["twice"] for row in rows(Doubles(tmp_path, dying, how)))
    assert found == [0, 2, 4, 6, 8]
    assert len(list(tmp_path.iterdir())) > dying
