"""What failures do to a running job: jitted. `reference.py` is the plain twin."""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

import numpy as np

from windtunnel.clusters.event_loop.records import (
    DRAINS,
    FAILS,
    NEVER,
    NUM_RUNNING,
    REQUEUES,
    RESTARTS,
    SOUND,
    Causes,
    JobTable,
    State,
)
from windtunnel.jit import helper, pasted
from windtunnel.splitmix64.jitted import exponential, uniform


@helper
def left(remaining: float, ready: float, speed: float, now: float) -> float:
    """Seconds of work that a running job has left."""
    return max(remaining - max(now - ready, 0.0) * speed, 0.0)


@pasted
def is_on(j: int, node: int, state: State) -> bool:
    """Whether a running job is on a node."""
    return uses(j, node, state) > 0


@pasted
def uses(j: int, node: int, state: State) -> int:
    """Devices of a node that a running job holds."""
    slot = state.slot[j]
    for i in range(state.slot_width[slot]):
        if state.slot_nodes[slot, i] == node:
            return state.slot_uses[slot, i]
    return 0


@helper
def keeps(cause: int, causes: Causes) -> bool:
    """Whether jobs save before they stop."""
    return cause >= 0 and (causes.drains[cause] == 1 or causes.slow[cause] > 1.0)


@pasted
def set_end(j: int, state: State) -> None:
    """When a running job ends, or its own failure comes before that."""
    state.finish[j] = state.ready[j] + state.remaining[j] / state.speed[j]
    state.fate[j] = SOUND
    if state.ready[j] < NEVER and state.fails_at[j] < state.finish[j]:
        state.finish[j], state.fate[j] = state.fails_at[j], FAILS


@pasted
def roll_back(j: int, now: float, jobs: JobTable, state: State) -> None:
    """Lose what came after the last checkpoint."""
    begun = state.remaining[j]
    done = begun - left(begun, state.ready[j], state.speed[j], now)
    saved = done // jobs.save_s[j] * jobs.save_s[j]
    state.lost[j] += done - saved
    state.remaining[j] = begun - saved


@pasted
def note_held_back(j: int, now: float, state: State) -> None:
    """Write down what a locked clock has taken from a job since it was last looked at."""
    since = max(state.ready[j], state.locked[j])
    if now > since:
        state.held_back[j] += (now - since) * (1.0 - state.clock_speed[j])
    state.locked[j] = now


@pasted
def hang(j: int, now: float, jobs: JobTable, state: State) -> None:
    """Stand still, with devices held, until somebody knows."""
    note_held_back(j, now, state)
    roll_back(j, now, jobs, state)
    state.ready[j] = NEVER
    set_end(j, state)


@pasted
def slow_down(j: int, now: float, factor: float, state: State) -> None:
    """Go on slower; what was done stays done."""
    state.speed[j] /= factor
    if state.ready[j] < now:
        state.ready[j] = now - (now - state.ready[j]) * factor
    if state.fate[j] == SOUND or state.fate[j] == FAILS:
        set_end(j, state)


@helper
def fail(j: int, now: float, cause: int, jobs: JobTable, causes: Causes, state: State) -> None:
    """A failure of a job's processes, its node staying sound. One that stands still already cannot fail."""
    if state.ready[j] >= NEVER:
        return
    known = now + causes.known_s[cause]
    if causes.slow[cause] > 1.0 or causes.drains[cause] == 1:
        state.fate[j] = SOUND
        state.fails_at[j] = NEVER
        slow_down(j, now, causes.slow[cause], state)
        if known < state.finish[j]:
            state.finish[j], state.fate[j] = known, DRAINS
        return
    hang(j, now, jobs, state)
    state.finish[j] = known
    state.fate[j] = RESTARTS if causes.in_place[cause] == 1 else REQUEUES
    state.fails_at[j] = now


@helper
def crashed(node: int, device: int, state: State) -> int:
    """The job on a device of a node, counted through its jobs by their numbers; −1: it idles."""
    passed, last = 0, -1
    while True:
        following = -1
        for i in range(state.at[NUM_RUNNING]):
            j = state.running[i]
            if j > last and (following < 0 or j < following) and is_on(j, node, state):
                following = j
        if following < 0:
            return -1
        passed += uses(following, node, state)
        if device < passed:
            return following
        last = following


@pasted
def _seed(j: int, causes: Causes, state: State) -> None:
    """A stream for the next number of a job, whatever others have drawn."""
    own = np.uint64(causes.seed) * np.uint64(0xD1342543DE82EF95)
    own += np.uint64(j + 1) * np.uint64(0xA24BAED4963EE407)
    own += np.uint64(state.draws[j]) * np.uint64(0x9FB21C651E98DF25)
    state.stream[0] = own
    state.draws[j] += 1


@helper
def draw_failure(j: int, now: float, causes: Causes, state: State) -> None:
    """When the job as a whole fails next."""
    if causes.per_job_s <= 0.0:
        state.fails_at[j] = NEVER
        return
    _seed(j, causes, state)
    state.fails_at[j] = now + exponential(state.stream) / causes.per_job_s


@helper
def own_cause(j: int, causes: Causes, state: State) -> int:
    """Of a failure of the job as a whole."""
    _seed(j, causes, state)
    drawn = uniform(state.stream)
    for cause in range(len(causes.share)):
        if drawn < causes.share[cause]:
            return cause
    return len(causes.share) - 1
