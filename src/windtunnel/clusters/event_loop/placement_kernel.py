"""Which nodes a job gets: jitted."""

# Numba's decorators have no static types.
# mypy: disable-error-code="untyped-decorator,no-any-return"

from __future__ import annotations

from typing import NamedTuple

from windtunnel.arrays import Ints
from windtunnel.clusters.event_loop.records import BEST_FIT, CONSOLIDATED, NEVER, Rules, State
from windtunnel.jit import helper, pasted


@pasted
def placement_of(j: int, now: float, rules: Rules, state: State) -> int:
    """The placement that is good enough for a waiting job: a relaxed one if it has waited for long."""
    return rules.relaxed if now >= state.queued[j] + rules.relax_s else rules.placement


@pasted
def is_relaxed(j: int, now: float, rules: Rules, state: State) -> bool:
    """Whether no job of the same size has a placement that is good enough and easier to find."""
    return rules.relax_s >= NEVER or now >= state.queued[j] + rules.relax_s


class Choice(NamedTuple):
    """The part of `State` that a choice of nodes reads and writes."""

    capacity: Ints
    scratch: Ints
    picked: Ints
    uses: Ints


@pasted
def place(placement: int, devices: int, room: Ints, state: State) -> int:
    """Choose nodes for a job into `state.picked` and `state.uses`; returns how many, 0 where there is no room.

    Args:
        placement: CONSOLIDATED, BEST_FIT or SPREAD.
        devices: devices that the job needs at once.
        room: idle devices of each node; left as it is.
        state: whose scratch arrays are used.
    """
    return _choose(placement, devices, room, Choice(state.capacity, state.scratch, state.picked, state.uses))


@helper
def _choose(placement: int, devices: int, room: Ints, choice: Choice) -> int:
    """`place` with the arrays that it takes: called from many places, and so not pasted."""
    largest = 0
    for node in range(len(room)):
        largest = max(largest, choice.capacity[node])
    if largest == 0:
        return 0
    if placement == CONSOLIDATED:
        if devices <= largest:
            return _one_node(devices, room, choice)
        return _whole_nodes(devices, largest, room, choice)
    total = 0
    for node in range(len(room)):
        total += max(room[node], 0)
    if total < devices:
        return 0
    if placement == BEST_FIT:
        if _one_node(devices, room, choice):
            return 1
        return _fewest_nodes(devices, room, choice)
    return _spread(devices, room, choice)


@pasted
def _one_node(devices: int, room: Ints, choice: Choice) -> int:
    """Best fit: the node that has least room beside the job."""
    best = -1
    for node in range(len(room)):
        if room[node] >= devices and (best < 0 or room[node] < room[best]):
            best = node
            if room[node] == devices:
                break
    if best < 0:
        return 0
    choice.picked[0], choice.uses[0] = best, devices
    return 1


@pasted
def _whole_nodes(devices: int, largest: int, room: Ints, choice: Choice) -> int:
    """Idle nodes of the largest kind, and for what is left the node with least room beside it."""
    whole, rest = devices // largest, devices % largest
    count = 0
    for node in range(len(room)):
        if count < whole and choice.capacity[node] == largest and room[node] == largest:
            choice.picked[count], choice.uses[count] = node, largest
            count += 1
    if count < whole:
        return 0
    if rest == 0:
        return count
    best = -1
    for node in range(len(room)):
        if room[node] < rest or (best >= 0 and room[node] >= room[best]):
            continue
        taken = False
        for i in range(whole):
            taken = taken or choice.picked[i] == node
        if not taken:
            best = node
    if best < 0:
        return 0
    choice.picked[count], choice.uses[count] = best, rest
    return count + 1


@pasted
def _fewest_nodes(devices: int, room: Ints, choice: Choice) -> int:
    """Nodes with most room first. There is room in all."""
    for node in range(len(room)):
        choice.scratch[node] = room[node]
    count = 0
    while devices > 0:
        best = 0
        for node in range(len(room)):
            if choice.scratch[node] > choice.scratch[best]:
                best = node
        taken = min(devices, choice.scratch[best])
        choice.picked[count], choice.uses[count] = best, taken
        choice.scratch[best] = 0
        devices -= taken
        count += 1
    return count


@pasted
def _spread(devices: int, room: Ints, choice: Choice) -> int:
    """One device after the other on the node with most room. There is room in all."""
    for node in range(len(room)):
        choice.scratch[node] = room[node]
    count = 0
    for _ in range(devices):
        best = 0
        for node in range(len(room)):
            if choice.scratch[node] > choice.scratch[best]:
                best = node
        choice.scratch[best] -= 1
        at = -1
        for i in range(count):
            if choice.picked[i] == best:
                at = i
        if at < 0:
            at = count
            choice.picked[at], choice.uses[at] = best, 0
            count += 1
        choice.uses[at] += 1
    return count
