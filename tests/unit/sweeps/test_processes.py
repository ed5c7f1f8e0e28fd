"""Processes that die before they can compute a cell: started again a few times, then one error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from doubling_job import Doubles

from windtunnel.errors import WindtunnelError
from windtunnel.sweeps.cells import Cell
from windtunnel.sweeps.compute import Row
from windtunnel.sweeps.executors import Task
from windtunnel.sweeps.executors.processes import STILLBORN, Processes


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
