"""How far long work is and how long it takes, from whoever does it to whoever tells the user.

Work that may take long says so with `counting`, or with `expect` where it cannot be looked at while it runs. A front
end listens with `listening` and asks `counted` now and then. Without a front end nothing happens.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from windtunnel.errors import BadInput, Problem

WORTH_SAYING_S = 10.0
"""Work that is expected to take less is not announced."""
MOST_S = 4 * 3600.0
"""Work on one question that is expected to take longer is refused; what takes longer is a sweep, which resumes."""
CHECK_S = 5.0
"""Seconds between looks at the pace of a loop."""


@dataclass(frozen=True, slots=True)
class Count:
    """Work under way."""

    what: str
    """What is counted, in the plural."""
    done: float
    total: float
    left_s: float | None
    """Seconds that the rest takes at the pace so far; None while nothing is done."""


@dataclass(slots=True)
class _Running:
    what: str
    read: Callable[[], tuple[float, float]]
    begun: float


_running: list[_Running] = []
_stopped: list[Count] = []
_listeners: list[Callable[[str], None]] = []


@dataclass(slots=True)
class Pace:
    """Work under way, which is given up where the rest of it would take hours."""

    lower: str
    """What to lower then."""
    _of: _Running
    _next_s: float

    def check(self) -> None:
        """Look at the clock; cheap enough for every step of a loop.

        Raises:
            BadInput: at the pace so far the rest takes longer than is allowed.
        """
        now = time.monotonic()
        if now < self._next_s:
            return
        self._next_s = now + CHECK_S
        found = _count(self._of)
        left = found.total - found.done
        at_least_s = (now - self._of.begun) * left / max(found.done, 1.0)
        refuse_hours(at_least_s, self.lower, f"{left:,.0f} more {found.what}")


def refuse_hours(seconds: float, lower: str, what: str) -> None:
    """Refuse work that would take hours.

    Args:
        seconds: an estimate of the time that it takes.
        lower: the fields that make it less, the first of them the likeliest.
        what: the work, such as "60,000 jobs".

    Raises:
        BadInput: it would.
    """
    if seconds > MOST_S:
        first, *others = lower.split(", ")
        less = f"lower it{' or ' + ' or '.join(others) if others else ''}"
        rule = f"{what} would take about {duration(seconds)}, and {duration(MOST_S)} at most are allowed: {less}"
        raise BadInput(Problem(first, rule))


@contextmanager
def counting(what: str, read: Callable[[], tuple[float, float]], lower: str = "") -> Iterator[Pace]:
    """Let others see how far a piece of work is while this block runs.

    Args:
        what: what is counted, in the plural.
        read: gives done and total; it is called from another thread.
        lower: fields, with commas between them, that make the work less; for loops that check their pace.
    """
    own = _Running(what, read, time.monotonic())
    _running.append(own)
    try:
        yield Pace(lower, own, own.begun + CHECK_S)
    except KeyboardInterrupt:
        if not _stopped:  # the innermost work tells most
            _stopped.append(_count(own))
        raise
    finally:
        _running.remove(own)


def stopped() -> Count | None:
    """Return how far the work was that the user has just stopped, once; None where nothing was counted."""
    return _stopped.pop() if _stopped else None


def counted() -> Count | None:
    """The innermost work under way, or None."""
    if not _running:
        return None
    return _count(_running[-1])


def _count(one: _Running) -> Count:
    done, total = one.read()
    passed = time.monotonic() - one.begun
    return Count(one.what, done, total, passed * (total - done) / done if done > 0 else None)


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Hand what work expects to take to a function while this block runs."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def expect(what: str, seconds: float) -> None:
    """Announce how long work is going to take, where that is worth saying.

    Args:
        what: the work, such as "60,000 micro-batches".
        seconds: a rough estimate, for one idle core of a laptop.
    """
    if seconds >= WORTH_SAYING_S:
        for listener in _listeners:
            listener(f"{what}: about {duration(seconds)}")


def duration(seconds: float) -> str:
    """A span of time in the unit that suits it, to two digits."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"
