"""When steps begin: the engine simulates rounds until they are alike, and the rest of the run repeats them exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.timing.schedule import Schedule
from windtunnel.learning.timing.step_program import StepProgram
from windtunnel.program.tables import Timeline

ALIKE = 1e-11
"""Relative difference of two rounds' times below which they are one another's repeat: rounding."""
LONGEST_CYCLE = 4
"""Rounds after which the times of a periodic schedule may repeat rather than after one."""


@dataclass(frozen=True, slots=True)
class Begins:
    """When steps begin."""

    time_s: Floats
    """When all workers may begin each step, and the end of the last: shape (steps + 1,)."""
    computed_s: Floats
    """Seconds that each lane computes in all steps, by the mean of those that were simulated."""
    steady_step_s: float
    """Mean seconds of a step of the rounds that repeat; of all steps where none do."""
    simulated_steps: int


Simulated = Callable[[int, Sequence[int]], tuple[StepProgram, Timeline]]
"""(steps, cuts) → the program of the first steps, cut at some of them in any case, and when its tasks ran."""


def simulate_begins(simulated: Simulated, schedule: Schedule, *, repeats: bool, most_steps: int) -> Begins:
    """Simulate a schedule on its target.

    Args:
        simulated: Builds and runs the first steps.
        schedule: Messages of all steps.
        repeats: Whether a round of the schedule takes what the round before took, but for what still waits.
        most_steps: Steps that are simulated at most where rounds do not repeat; later ones take the mean of the second
            half of these.
    """
    steps, first, period = schedule.steps, schedule.first, schedule.period
    spans = -(-schedule.span // max(period, 1))
    rounds = 2 * spans + 2
    while repeats and first + (rounds + spans) * period < steps:
        found = _of_rounds(simulated, schedule, rounds, spans)
        if found is not None:
            return found
        rounds *= 2
    known = min(steps, most_steps)
    program, timeline = simulated(known, ())
    time = _begins(program, timeline)
    half = known // 2
    each = float(time[known] - time[half]) / max(known - half, 1)
    computed = program.computed_s * (steps / max(known, 1))
    if known < steps:
        time = np.concatenate([time, time[known] + each * np.arange(1, steps - known + 1)])
    return Begins(time, computed, float(time[-1]) / max(steps, 1), known)


def _of_rounds(simulated: Simulated, schedule: Schedule, rounds: int, spans: int) -> Begins | None:
    """The whole run from its first rounds, None where they are not yet alike.

    A round depends on the rounds whose messages still move in it, of which there are `spans`. Where these and the
    round itself are, task by task, repeats of those a cycle before, every later round is a repeat too. Rounds behind
    those compared are simulated as well, since what they send may still slow what the last of them sent.
    """
    first, period, steps = schedule.first, schedule.period, schedule.steps
    cuts = [first + j * period for j in range(rounds + spans + 1)]
    program, timeline = simulated(cuts[-1], cuts)
    time = _begins(program, timeline)
    tasks = []
    for j in range(rounds):
        a, b = program.rows[cuts[j]], program.rows[cuts[j + 1]]
        begin = time[cuts[j]]
        tasks.append(
            np.concatenate(
                [
                    timeline.start_s[a:b] - begin,
                    timeline.end_s[a:b] - begin,
                    time[cuts[j + 1] : cuts[j + 1] + 1] - begin,
                ]
            )
        )
    for cycle in range(1, min(LONGEST_CYCLE, rounds - spans - 1) + 1):
        if all(_alike(tasks[j], tasks[j - cycle]) for j in range(rounds - spans - 1, rounds)):
            known, repeat = cuts[rounds], cycle * period
            takes = float(time[known] - time[known - repeat])
            later = np.arange(known + 1, steps + 1)
            times = -(-(later - known) // repeat)
            rest = time[later - times * repeat] + times * takes
            computed = program.computed_s * (steps / cuts[-1])
            return Begins(np.concatenate([time[: known + 1], rest]), computed, takes / repeat, cuts[-1])
    return None


def _alike(one: Floats, other: Floats) -> bool:
    return len(one) == len(other) and bool(np.all(np.abs(one - other) <= ALIKE * np.abs(one).max(initial=0.0)))


def _begins(program: StepProgram, timeline: Timeline) -> Floats:
    """When all workers may begin each step of a program, and its end; steps of one stretch are evenly apart."""
    cuts = np.array(sorted(program.begins))
    begin = np.array([timeline.start_s[program.begins[int(c)]].max() for c in cuts])
    done = np.array([timeline.end_s[program.ends[int(c)]].max() for c in cuts[:-1]])
    counts = np.diff(cuts)
    each = (done - begin[:-1]) / counts
    inside = np.arange(cuts[-1]) - np.repeat(cuts[:-1], counts)
    return np.concatenate([np.repeat(begin[:-1], counts) + inside * np.repeat(each, counts), begin[-1:]])
