"""What a policy of rounds reads and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.jobs import Growth
from windtunnel.clusters.scheduling_policy import SchedulingPolicy
from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.registry import Registry

Knobs = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """Jobs in the room at a decision, in the order of their submission."""

    jobs: Ints
    """Their numbers, for policies that remember."""
    devices: Ints
    speed: Floats
    """Job × kind of device: work a second with the present batch; 0 where it cannot run."""
    counts: Ints
    """Devices of each kind."""
    kind: Ints
    """Kind of device that each job ran on in the last round, or −1."""
    left_s: Floats
    """Work left."""
    work_s: Floats
    """Work in all."""
    age_s: Floats
    """Seconds since submission."""
    speed_class: Ints
    """Number of the row of `speed` and `devices`: jobs of one class are alike to the policy."""
    round_s: float = 360.0
    growth: Growth | None = None
    due_s: Floats | None = None
    """Seconds to the deadline; infinite where a job has none."""
    prices: Floats | None = None
    """Of a device of each kind for an hour."""
    now_s: float = 0.0
    """Seconds since the first submission."""

    def __len__(self) -> int:
        return len(self.jobs)


Shares = Floats
"""Job × kind: share of its time that a job is to run there."""
Allocate = Callable[[Active], Shares]
_RULES: Knobs = {"reset_s": 1920.0, "newcomers": ("run", "wait")}
"""Knobs of every policy of rounds: least seconds between two computations of shares (Gavel's default), and whether jobs
that came since run on idle devices or wait for the next computation, as they do in Gavel's simulator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPolicy(SchedulingPolicy):
    """A policy that gives jobs shares of time, or, where `fixed`, says what runs in the next round."""

    allocate: Allocate | None = None
    start: Callable[[Knobs], Allocate] | None = None
    """In place of `allocate`: a new run of a policy that remembers, or that has knobs."""
    shuffled: bool = False
    """Whether rounds fill kinds of devices in random order: policies that do not know how fast jobs run there."""
    fixed: bool = False
    """Whether shares are 1 or 0 and hold for the whole round."""
    every_round: bool = False
    """Whether the policy is asked in every round, not only after jobs came or went."""
    single: bool = False
    """Whether it knows only jobs of one device."""
    priced: bool = False
    """Whether it has to know what a device of each kind costs."""
    knobs: Knobs = field(default_factory=dict)
    """Name → default; of several words the first."""

    def begin(self, knobs: Knobs | None = None) -> Allocate:
        """What decides in one run."""
        if self.start is not None:
            return self.start(self.read({}, "") if knobs is None else knobs)
        assert self.allocate is not None
        return self.allocate

    def read(self, given: Knobs, field: str) -> Knobs:
        """Knobs with their defaults.

        Raises:
            BadInput: an unknown knob, or one with another kind of value.
        """
        own = {**_RULES, **({"reset_s": 1.0} if self.fixed else {}), **self.knobs}
        problems = []
        for name, value in given.items():
            if name not in own:
                rule = f"unknown knob; known: {', '.join(own)}"
                problems.append(Problem(f"{field}.{name}", rule, value, nearest=nearest_name(name, own)))
            elif isinstance(own[name], tuple):
                if value not in own[name]:
                    problems.append(Problem(f"{field}.{name}", f"must be {' or '.join(own[name])}", value))
            elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
                problems.append(Problem(f"{field}.{name}", "must be a positive number", value))
            elif isinstance(own[name], int) and not isinstance(value, int):
                problems.append(Problem(f"{field}.{name}", "must be a whole number", value))
        if problems:
            raise BadInput(problems)
        return {name: value[0] if isinstance(value, tuple) else value for name, value in own.items()} | dict(given)

    FUNCTIONS: ClassVar[dict[str, tuple[str, ...]]] = {"allocate": ("active",), "start": ("knobs",)}

    def contradiction(self) -> str:
        """Two ways to decide, or none."""
        return "" if (self.allocate is None) is not (self.start is None) else "has one of `allocate` and `start`"


ROUND_POLICIES: Registry[RoundPolicy] = Registry(
    "cluster_round_policies", package="windtunnel.clusters.round_policies", noun="policy"
)


def equal_shares(active: Active) -> Shares:
    """Each job as many device-seconds as any other, none more than it can use, over kinds as they are there."""
    sizes = active.devices.astype(np.float64)
    total = float(active.counts.sum())
    if sizes.sum() <= total:
        time = np.ones(len(sizes))
    else:
        low, high = 0.0, total
        for _ in range(60):
            level = 0.5 * (low + high)
            low, high = (level, high) if np.minimum(sizes, level).sum() <= total else (low, level)
        time = np.minimum(1.0, low / sizes)
    return over_kinds(active, time)


def over_kinds(active: Active, time: Floats) -> Shares:
    """Spread each job's share of time over the kinds that it can use, as many as there are of each."""
    over = active.counts * (active.speed > 0)
    shares: Shares = time[:, None] * over / np.maximum(over.sum(axis=1, keepdims=True), 1)
    load = (shares * active.devices[:, None]).sum(axis=0)
    shares *= np.minimum(1.0, active.counts / np.maximum(load, 1e-300))
    return shares
