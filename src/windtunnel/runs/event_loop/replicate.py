"""Replications of a run, each with rates of its own; reproducible from one seed."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.kernel_cache import is_compiled, kernel_file, mark_compiled, seconds_noted
from windtunnel.progress import expect
from windtunnel.runs.event_loop import twin
from windtunnel.runs.event_loop.program import Program, Replication

KERNEL = "runs/event_loop/replicate"
"""Name of the loop among compiled kernels."""
COMPILE_S = 60.0
"""CPU seconds that compiling the loop takes: 44 to 60 measured."""
TWIN_S = 15.0
"""Seconds of the plain twin in one process after which the loop is compiled. All processes together spend no more than
compiling takes, so that nobody waits more than twice as long as had the shorter way been known."""

Runs = Callable[[Program, int, Floats, Floats], Replication]
"""Runs one replication: program, seed, multiplier of each node's rate, multiplier of bad nodes."""


@dataclass(frozen=True, slots=True)
class Frailty:
    """How node failure rates differ between nodes of one cluster."""

    variation: float = 0.0
    """Coefficient of variation of a gamma distribution of mean 1; 0: all alike."""
    bad_share: float = 0.0
    """Share of nodes that fail more often until a repair succeeds."""
    bad_factor: float = 1.0
    """How much more often."""
    rate_shapes: tuple[float, ...] = ()
    """How well the rate of each kind of failure is known: shape of the gamma distribution of mean 1 from which each
    replication draws its factor; infinite: known. Empty: all are."""
    common_shape: float = math.inf
    """The same of one factor on all kinds."""

    def draw(self, num_nodes: int, seed: int) -> tuple[Floats, Floats]:
        """(multiplier of each node's rate, multiplier of the bad ones), shape (num_nodes,) each."""
        random = np.random.Generator(np.random.Philox(seed))
        multiplier = np.ones(num_nodes)
        if self.variation > 0:
            shape = self.variation**-2
            multiplier = random.gamma(shape, 1.0 / shape, num_nodes)
        bad = np.ones(num_nodes)
        bad[random.permutation(num_nodes)[: round(self.bad_share * num_nodes)]] = self.bad_factor
        return multiplier, bad

    def draw_rates(self, kinds: int, seed: int, i: int) -> Floats | None:
        """Factors on the rates of all kinds in run i, shape (kinds,); None where they are known.

        Runs go through the distributions evenly, so that few of them have their mean: an additive recurrence with a
        start of its own for each seed (Roberts 2018, "The unreasonable effectiveness of quasirandom sequences").
        """
        shapes = np.array([*self.rate_shapes, self.common_shape])
        if not np.isfinite(shapes).any():
            return None
        from scipy.special import gammaincinv

        unsure = np.flatnonzero(np.isfinite(shapes))
        root = 2.0
        for _ in range(60):  # the root of x^(d + 1) = x + 1
            root = (1.0 + root) ** (1.0 / (len(unsure) + 1))
        begin = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 1]))).random(len(unsure))
        places = (begin + (i + 1) * root ** -np.arange(1.0, len(unsure) + 1)) % 1.0
        drawn = np.ones(len(shapes))
        drawn[unsure] = gammaincinv(shapes[unsure], places) / shapes[unsure]
        own = drawn[:-1] if self.rate_shapes else np.ones(kinds)
        return np.asarray(own * drawn[-1])


def _is_stopped(error: BaseException | None) -> bool:
    """Whether Ctrl-C is what an error began with."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False


_machines: list[tuple[Program, Any]] = []
"""The last program and its record for the kernel; most runs have many replications of one program."""


def _machine_of(program: Program) -> Any:
    from windtunnel.runs.event_loop.kernels import state

    if not _machines or _machines[0][0] is not program:
        _machines[:] = [(program, state.machine_of(program))]
    return _machines[0][1]


def jitted(program: Program, seed: int, multiplier: Floats, bad: Floats) -> Replication:
    """One run by the jitted loop; the first call of a process compiles it or loads its machine code."""
    if not is_compiled(KERNEL):
        expect("compiling the loop of a run, once on this machine", COMPILE_S)
    from windtunnel.runs.event_loop.kernels import loop, state

    try:
        found = loop.replicate(_machine_of(program), seed, multiplier, bad)
    except SystemError as error:  # Ctrl-C inside machine code
        if _is_stopped(error):
            raise KeyboardInterrupt from None
        raise
    mark_compiled(KERNEL)
    seconds, counts, counters, clock, stops, finished = found
    return Replication(
        seconds=seconds,
        counts=counts,
        restarts=int(counters[state.RESTARTS]),
        manual_repairs=int(counters[state.MANUAL]),
        retired=int(counters[state.RETIRED]),
        finished=bool(finished),
        stops=stops,
        reclaimed=int(counters[state.RECLAIMED]),
        reclaims=int(counters[state.RECLAIMS]),
        fallbacks=int(counters[state.FALLBACKS]),
        held_node_s=float(clock[state.HELD]),
        job_node_s=float(clock[state.USED]),
    )


def plain(program: Program, seed: int, multiplier: Floats, bad: Floats) -> Replication:
    """One run by the loop in plain Python."""
    return twin.replicate(program, seed, multiplier, bad)


@dataclass(slots=True)
class _Twin:
    """Seconds spent on the twin while the loop is not compiled: in this process, and before it."""

    here_s: float = 0.0
    before_s: float | None = None
    noted_s: float = field(default=0.0)

    @property
    def _file(self) -> Path:
        return kernel_file(KERNEL, "twin_s")

    @property
    def has_time(self) -> bool:
        """Whether waiting for the twin is still shorter than compiling."""
        if self.before_s is None:
            self.before_s = 0.0
            with contextlib.suppress(OSError, ValueError):
                self.before_s = seconds_noted(self._file)
        return self.here_s < TWIN_S and self.before_s + self.here_s < COMPILE_S

    def spent(self, seconds: float) -> None:
        """Count seconds; now and then other processes get the count."""
        self.here_s += seconds
        if self.here_s - self.noted_s > 0.5:
            self.noted_s = self.here_s
            with contextlib.suppress(OSError):
                self._file.write_text(f"{(self.before_s or 0.0) + self.here_s:.3f}")


_TWIN = _Twin()


def soonest(program: Program, seed: int, multiplier: Floats, bad: Floats) -> Replication:
    """One run by the loop that is done sooner: the plain one until compiling the other would have paid.

    Both give the same run, but for the last digits.
    """
    if is_compiled(KERNEL) or not _TWIN.has_time:
        return jitted(program, seed, multiplier, bad)
    begun = time.perf_counter()
    found = plain(program, seed, multiplier, bad)
    _TWIN.spent(time.perf_counter() - begun)
    return found


def seed_of(seed: int, i: int) -> int:
    """The seed of replication i of a run's seed."""
    return (seed * 1_000_003 + i) & 0x7FFFFFFF


def replications(
    program: Program, frailty: Frailty, count: int, seed: int, run: Runs = soonest, *, first: int = 0
) -> Iterator[Replication]:
    """`count` runs, one after the other, from run `first` on. Run i has the same random numbers whatever the count."""
    for i in range(first, first + count):
        own = seed_of(seed, i)
        here = replace(program, market=program.draw_market(own)) if program.draw_market is not None else program
        factors = frailty.draw_rates(len(program.kinds.rate), seed, i)
        if factors is not None:
            here = replace(here, kinds=program.kinds._replace(rate=program.kinds.rate * factors))
        yield run(here, own, *frailty.draw(program.num_nodes, own))
