"""Cells on a Ray cluster: a few seconds of cells a task, rows back to the one writer.

Workers need nothing of this machine's disk. Their code is compared by the hash of the physics before anything is
computed. A node that dies costs its tasks, which Ray gives out again; a driver that dies costs the rows of the last
seconds, and `resume` computes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.errors import BadInput, Problem
from windtunnel.sweeps.cells import physics
from windtunnel.sweeps.compute import Computer, Row, crashed
from windtunnel.sweeps.definition import Definition
from windtunnel.sweeps.executors import Task, cut

CHUNK_S = 2.0
RETRIES = 5
REJOINS = 3
"""Times that a cluster which was lost, with this machine's part of it for one, is joined again."""
_AHEAD = 4
"""Tasks under way for each CPU of the cluster."""
_LOOK_UP_S = 0.5


@dataclass(slots=True)
class OnRay:
    """Computes on the cluster at `address`, or on a local one where it is None."""

    address: str | None = None
    cpus: int | None = None
    """CPUs of a local cluster; absent: all of this machine."""
    _cpus: int = 1

    @property
    def processes(self) -> int:
        """CPUs of the cluster, as it was last seen."""
        return self._cpus

    def rows(self, definition: Definition, tasks: Sequence[Task]) -> Iterator[list[Row]]:
        """See `Executor.rows`.

        Raises:
            BadInput: Ray is not installed, cannot be reached, or has other code.
        """
        ray, left, told, lost = _ray(), deque(tasks), 0, 0
        while told < len(tasks):
            mine = self._join(ray)
            under_way: dict[Any, list[Task]] = {}
            try:
                for fresh in self._computed(ray, definition, left, under_way, len(tasks) - told):
                    told += len(fresh)
                    yield fresh
            except (ray.exceptions.RayError, ConnectionError, OSError, RuntimeError) as error:
                lost += 1
                if not mine or lost > REJOINS:
                    rule = f"the cluster was lost ({_first_line(error)}): what was computed is kept; resume the sweep"
                    raise BadInput(Problem("--ray", rule, self.address or "local")) from None
                for chunk in under_way.values():
                    left.extend(chunk)
            finally:
                if mine:
                    ray.shutdown()

    def _computed(
        self, ray: Any, definition: Definition, left: deque[Task], under_way: dict[Any, list[Task]], total: int
    ) -> Iterator[list[Row]]:
        """Rows of the cells that are left, on the cluster that was joined."""
        compute = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(compute_chunk)
        known = ray.put(definition)
        _compare_code(ray)
        pace_s, told = 0.0, 0
        while told < total:
            self._cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
            most = _AHEAD * self._cpus
            while left and len(under_way) < most:
                size = max(1, min(int(CHUNK_S / pace_s) if pace_s else 1, len(left) // most or 1))
                chunk = cut(left, size, size if pace_s == 0.0 else max(size, len(left) // most))
                under_way[compute.remote(known, chunk)] = chunk
            ready, _ = ray.wait(list(under_way), num_returns=1, timeout=_LOOK_UP_S)
            fresh: list[Row] = []
            for reference in ready:
                fresh += _results(ray, reference, under_way[reference], definition, left)
                del under_way[reference]
            for row in fresh:
                pace_s = row["wall_s"] if not pace_s else 0.9 * pace_s + 0.1 * row["wall_s"]
            told += len(fresh)
            yield fresh

    def _join(self, ray: Any) -> bool:
        """Join the cluster; True where it is to be left again."""
        if ray.is_initialized():
            return False
        quiet = {"logging_level": "ERROR", "log_to_driver": False, "include_dashboard": False}
        try:
            if self.address is None:
                ray.init(num_cpus=self.cpus, **quiet)
            else:
                ray.init(address=self.address, logging_level="ERROR", log_to_driver=False)
        except (ConnectionError, ValueError, RuntimeError) as error:
            rule = f"cannot be joined: {_first_line(error)}"
            raise BadInput(Problem("--ray", rule, self.address or "local")) from None
        return True


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _ray() -> Any:
    import os

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise BadInput(Problem("--ray", "needs Ray: pip install 'windtunnel[ray]'")) from None
    return ray


def _results(ray: Any, reference: Any, chunk: list[Task], definition: Definition, left: deque[Task]) -> list[Row]:
    """Rows of a task that has ended; where its workers died again and again, its cells are given out one by one."""
    try:
        rows: list[Row] = ray.get(reference)
        return rows
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError,
            ray.exceptions.TaskUnschedulableError) as error:  # fmt: skip
        if len(chunk) > 1:
            left.extendleft(reversed(chunk))
            return []
        if not _here_alive(ray):
            raise ConnectionError("this machine's part of it died") from None
        why = f"its worker died {RETRIES + 1} times ({type(error).__name__})"
        return [crashed(definition, chunk[0].cell, chunk[0].attempt, why)]


def _here_alive(ray: Any) -> bool:
    """Whether the part of the cluster that this process is joined to lives."""
    here = ray.get_runtime_context().get_node_id()
    return any(node["Alive"] for node in ray.nodes() if node["NodeID"] == here)


def _compare_code(ray: Any) -> None:
    """Refuse workers whose code decides other results than ours.

    Raises:
        BadInput: the hashes differ.
    """
    theirs = ray.get(ray.remote(num_cpus=1)(code_of_worker).remote())
    if theirs != physics():
        rule = f"runs other code (physics {theirs}, here {physics()}): install the same wheel on all nodes"
        raise BadInput(Problem("--ray", rule))


def code_of_worker() -> str:
    """Hash of the physics of the process that this runs in."""
    return physics()


_COMPUTERS: dict[str, Computer] = {}


def compute_chunk(definition: Definition, chunk: list[Task]) -> list[Row]:
    """Rows of some tasks, in a Ray worker; what cells share stays from task to task."""
    import os

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    key = f"{definition.physics}{id(definition)}"
    if key not in _COMPUTERS:
        _COMPUTERS.clear()
        _COMPUTERS[key] = Computer(definition)
    return [_COMPUTERS[key].row(task.cell, task.attempt) for task in chunk]
