"""From a program to a timeline: `simulate` and the lower bound that defines what "as fast as possible" means."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from windtunnel.arrays import Floats
from windtunnel.kernel_cache import mark_compiled, runs_on_twin
from windtunnel.program.tables import Resources, Streams, TaskTable, Timeline

DEADLOCK, STARVED = 1, 2
KERNEL = "engine/timeline"
"""Name of the event loop among compiled kernels."""
TWIN_S_A_TASK = 12e-6
"""Seconds of the plain twin for a task of a training step, on a laptop core (85,224 tasks of a 70B step in 1.04 s)."""


class ProgramError(AssertionError):
    """A program that cannot run to its end: a bug of the code that built it, never of the user."""


def _arguments(tasks: TaskTable, streams: Streams, resources: Resources) -> tuple[npt.NDArray[np.generic], ...]:
    """The columns the event loop reads, contiguous and in its types."""

    def column(values: npt.ArrayLike, kind: type[np.generic]) -> npt.NDArray[np.generic]:
        return np.ascontiguousarray(values, dtype=kind)

    return (
        column(tasks.alone_s, np.float64),
        column(tasks.weight, np.float64),
        column(tasks.stream_ptr, np.int64),
        column(tasks.stream_idx, np.int32),
        column(tasks.dep_ptr, np.int64),
        column(tasks.dep_idx, np.int32),
        column(tasks.rate_ptr, np.int64),
        column(tasks.rate_idx, np.int32),
        column(tasks.rate_work, np.float64),
        column(tasks.slot_pool, np.int32),
        column(tasks.slots, np.int32),
        column(tasks.min_slots, np.int32),
        column(tasks.waves, np.int32),
        column(streams.priority, np.int32),
        column(resources.capacity, np.float64),
        column(resources.slots, np.int32),
    )


def _describe(tasks: TaskTable, row: int) -> str:
    tag = int(tasks.tag[row])
    name = tasks.tags[tag] if 0 <= tag < len(tasks.tags) else f"tag {tag}"
    return f"{row} ({name}, rank class {int(tasks.rank_class[row])})"


def _fail(tasks: TaskTable, start: Floats, end: Floats, status: int) -> ProgramError:
    """The error for a program that stopped early, naming the first tasks concerned."""
    if status == STARVED:
        rows = np.flatnonzero((start >= 0.0) & (end < 0.0))
        cause = "started but can never end, because a rate they load has no capacity"
    else:
        rows = np.flatnonzero(end < 0.0)
        cause = "never ended: their dependencies form a cycle, or they ask for more slots than their pool has"
    shown = ", ".join(_describe(tasks, int(row)) for row in rows[:8])
    return ProgramError(f"{len(rows)} of {len(tasks)} tasks {cause}; first: {shown}")


def simulate(tasks: TaskTable, streams: Streams, resources: Resources, *, reference: bool = False) -> Timeline:
    """Run a program: in-order streams, dependencies, shared rates and slots; event-driven and exact for that model.

    Args:
        tasks: The program, n rows in launch order.
        streams: Its in-order queues.
        resources: Shared rates and slot pools.
        reference: Use the plain Python twin (the same bits, about two hundred times slower). Small programs run on it
            as long as the kernel has not been compiled on this machine.

    Returns:
        Start and end of each task in seconds and the task that released it.

    Raises:
        ProgramError: The program cannot end (a cycle, a rate without capacity, more slots than there are).
    """
    columns = _arguments(tasks, streams, resources)
    if reference or runs_on_twin(KERNEL, TWIN_S_A_TASK * len(tasks)):
        from windtunnel.engine import reference as twin

        start, end, blame, status = twin.run(*columns)
    else:
        from windtunnel.engine import kernels  # late: Numba takes a quarter of a second that most commands do not need

        start, end, blame, status = kernels.run(*columns)
        mark_compiled(KERNEL)
    if status:
        raise _fail(tasks, start, end, int(status))
    return Timeline(start, end, blame, float(end.max()) if len(end) else 0.0)
