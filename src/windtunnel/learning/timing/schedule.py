"""What an algorithm sends in each local step, and where that begins to repeat."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

import numpy as np

from windtunnel.arrays import Ints
from windtunnel.learning.messages import Message, WireFormat

Messages = Callable[[int], tuple[Message, ...]]
"""`LockStepAlgorithm.messages`: local step → what is sent in it or at its end."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Messages of all steps, each distinct set of them once."""

    codes: Ints
    """Which of `kinds` each local step sends, shape (steps,)."""
    kinds: tuple[tuple[Message, ...], ...]
    """Distinct sets of messages, as of step 0."""
    first: int
    """Step from which the schedule repeats."""
    period: int
    """Steps after which it repeats from there; steps − `first` where it does not."""

    @property
    def steps(self) -> int:
        """Local steps."""
        return len(self.codes)

    @property
    def draws_pairs(self) -> bool:
        """Whether partners are drawn anew."""
        return any(m.kind == "pairs" and not m.partners for found in self.kinds for m in found)

    @property
    def span(self) -> int:
        """Most steps between a message's leaving and the step that needs it."""
        return max((m.needed_by - m.after_step for found in self.kinds for m in found), default=1)

    def messages(self, step: int) -> list[Message]:
        """Messages of a local step."""
        found = self.kinds[self.codes[step]]
        return [replace(m, after_step=step, needed_by=m.needed_by + step) for m in found]


def read_schedule(messages: Messages | Schedule, steps: int, *, who_matters: bool = True) -> Schedule:
    """Read all messages of an algorithm, and find the repeat that leaves the fewest steps to simulate.

    Args:
        messages: What it sends in each local step; formats are distinguished by value. A schedule that was read before
            is taken as it is.
        steps: How many to read.
        who_matters: Whether it makes a difference which workers take part, and not only how many.
    """
    if isinstance(messages, Schedule):
        return messages
    known: dict[tuple[object, ...], int] = {}
    kinds: list[tuple[Message, ...]] = []
    codes = np.zeros(steps, np.int64)
    for step in range(steps):
        found = messages(step)
        key = tuple(_key(m, step, who=who_matters) for m in found)
        code = known.get(key)
        if code is None:
            code = known[key] = len(kinds)
            kinds.append(tuple(replace(m, after_step=0, needed_by=m.needed_by - step) for m in found))
        codes[step] = code
    first, period = _repeat(codes)
    return Schedule(codes, tuple(kinds), first, period)


def _key(m: Message, step: int, *, who: bool) -> tuple[object, ...]:
    """All of a message but when it is sent, and who takes part only where that matters."""
    return (
        m.kind,
        wire_key(m.wire),
        m.copies,
        m.fragment,
        m.needed_by - step,
        m.after_step - step,
        m.during_backward,
        m.during_forward,
        m.degree,
        m.participants if who or m.kind in ("pairs", "neighbours") else len(m.participants),
        m.partners if who or m.participants else bool(m.partners),
        m.late,
        m.in_turn,
    )


def wire_key(wire: WireFormat) -> Hashable:
    """What tells formats apart: their values where they are hashable, else their identity."""
    try:
        hash(wire)
    except TypeError:
        return id(wire)
    return wire  # type: ignore[return-value]


def _repeat(codes: Ints) -> tuple[int, int]:
    """(first, period): from `first` on, codes repeat; both chosen so that first + period is least.

    The borders of the reversed sequence are the repeats of its ends (Knuth, Morris and Pratt 1977).
    """
    n = len(codes)
    if n == 0:
        return 0, 0
    back = codes[::-1].tolist()
    border = [0] * n
    best = (0, n)
    for i in range(1, n):
        k = border[i - 1]
        while k and back[i] != back[k]:
            k = border[k - 1]
        border[i] = k + 1 if back[i] == back[k] else 0
        length, period = i + 1, i + 1 - border[i]
        if 2 * period <= length and n - length + period <= sum(best):
            best = (n - length, period)
    return best
