"""Conversations: turns that follow each other, each prompt holding all turns before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.machine_memory import require_bytes
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.lengths import THINK, TURNS, draw
from windtunnel.specs.traffic import Sessions

MAX_TOKENS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Turns:
    """Which session each request belongs to. Requests of a session stand together, in order."""

    session: Ints
    """(R,) from 0."""
    turn: Ints
    """(R,) from 0."""

    @property
    def heads(self) -> Ints:
        """(S,) the first request of each session."""
        return np.flatnonzero(self.turn == 0)

    def follow(self) -> Int32s:
        """(R,) the next turn of the same session, or −1."""
        after = np.arange(1, len(self.turn) + 1, dtype=np.int32)
        last = np.ones(len(self.turn), np.bool_)
        last[:-1] = self.turn[1:] == 0
        after[last] = -1
        return after

    def delay_s(self, before_s: Floats) -> Floats:
        """(R,) seconds from the end of a request to the next turn, of those before each turn."""
        delay = np.zeros(len(self.turn))
        delay[:-1] = np.where(self.turn[1:] > 0, before_s[1:], 0.0)
        return delay

    def history(self, new: Int32s, answers: Int32s) -> Ints:
        """(R,) tokens of the turns before: what each prompt starts with.

        Args:
            new: (R,) tokens that each turn adds to the prompt.
            answers: (R,) tokens of its answer.
        """
        before = np.concatenate(([0], (new.astype(np.int64) + answers).cumsum()))[:-1]
        history: Ints = before - np.repeat(before[self.heads], np.diff(np.append(self.heads, len(self.turn))))
        return history


def split(spec: Sessions, seed: int, *, requests: int | None = None, sessions: int | None = None) -> Turns:
    """Sessions for so many requests (the last may be cut short), or so many sessions with all their turns."""
    count = requests if requests is not None else sessions
    assert count is not None
    turns = draw(spec.turns, count, seed, TURNS).astype(np.int64)
    ends = turns.cumsum()
    if requests is not None:
        used = int(np.searchsorted(ends, requests)) + 1
        turns, ends = turns[:used], ends[:used]
        turns[-1] -= ends[-1] - requests
        ends[-1] = requests
    what = f"{int(ends[-1]) if len(ends) else 0:,} turns of {len(turns):,} sessions"
    require_bytes(600.0 * float(ends[-1]) if len(ends) else 0.0, "serving.traffic.sessions.turns", what)
    session = np.repeat(np.arange(len(turns)), turns)
    return Turns(session, np.arange(len(session)) - np.repeat(ends - turns, turns))


def think_s(spec: Sessions, count: int, seed: int) -> Floats:
    """(count,) exponential pauses."""
    return stream(seed, THINK).standard_exponential(count) * spec.think_time_s


def prompts(turns: Turns, new: Int32s, answers: Int32s) -> tuple[Int32s, Int32s]:
    """Whole prompts of all turns, and the tokens of them that come from the turns before.

    Raises:
        BadInput: a prompt grows beyond what counts hold.
    """
    history = turns.history(new, answers)
    whole = history + new
    if whole.max(initial=0) > MAX_TOKENS:
        raise BadInput(
            Problem("serving.traffic.sessions.turns", f"a prompt would grow to {whole.max()} tokens; fewer turns")
        )
    return whole.astype(np.int32), history.astype(np.int32)
