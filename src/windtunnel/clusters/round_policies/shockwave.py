"""Shockwave: rounds ahead are planned for Nash welfare and makespan, believing how batches grow before they do.

Source: Zheng et al., NSDI 2023, sections 4 to 6, and its public code. Its mixed-integer programme says which job runs
in which of the next rounds; here its relaxation says how many of them each job gets. If all jobs can end as soon as on
equal shares, they have to; if not, those that are late weigh more, and run first that weigh most for the devices and
rounds that they take. What the plan leaves idle goes to the jobs with most left. The plan is renewed every few rounds
and whenever jobs come or end.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.clusters.round_policies._foresight import Foresight, foresee
from windtunnel.clusters.round_policies.base import (
    ROUND_POLICIES,
    Active,
    Allocate,
    Knobs,
    RoundPolicy,
    Shares,
)

BASES = (1e-6, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Progress between which the logarithm is taken as straight; the first stands for 0."""
MOMENTUM = 0.9
"""Weight of the mean of all expected ends against the last one."""
LAST_ROUND_POWER = 100.0
"""In place of `fairness_power` for a late job that could end within a round."""
MOST_WEIGHT = 1e6


class _Plan:
    """Rounds that the window still owes to each job, and when jobs would have ended on equal shares."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.owed: dict[int, float] = {}
        self.weight: dict[int, float] = {}
        self.rounds_left = 0
        self.age = 0
        self.known: set[int] = set()
        self.series: dict[int, list[tuple[float, float]]] = {}
        """Of each job (moment, expected end)."""

    def renew(self, active: Active, seen: Foresight) -> None:
        """Solve for the next window."""
        numbers = active.jobs.tolist()
        part = min(1.0, float(active.counts.sum()) / len(active))
        if set(numbers) != self.known:
            ends = active.now_s - active.age_s + (seen.passed_s + seen.left_s) / part
            for j, end in zip(numbers, ends.tolist(), strict=True):
                self.series.setdefault(j, []).append((active.now_s, end))
            self.known = set(numbers)
        due = np.array([_running_mean(self.series[j], active.now_s) for j in numbers])
        rounds = float(self.knobs["rounds"])
        window = rounds * active.round_s
        must = np.maximum(seen.left_s - (due - active.now_s - window) * part, 0.0) / window
        ratio = (active.now_s + seen.left_s / part) / np.maximum(due, 1e-9)
        shares = None
        if (due >= active.now_s + window).all():
            shares = _window(active, seen, np.ones(len(active)), must, self.knobs)
        weight = np.ones(len(active))
        if shares is None:
            power = np.where(seen.left_s < active.round_s, LAST_ROUND_POWER, float(self.knobs["fairness_power"]))
            weight = np.where(ratio > 1.0, np.minimum(np.maximum(ratio, 1.0) ** power, MOST_WEIGHT), 1.0)
            shares = _window(active, seen, weight, np.zeros(len(active)), self.knobs)
        assert shares is not None, "without bounds on ends any plan will do"
        self.owed = dict(zip(numbers, (shares * rounds).tolist(), strict=True))
        self.weight = dict(zip(numbers, weight.tolist(), strict=True))
        self.rounds_left, self.age = int(rounds), 0


def _running_mean(series: list[tuple[float, float]], now: float) -> float:
    """Mean of the expected ends by how long each held, and a little of the last one."""
    moments = np.array([moment for moment, _ in series] + [now])
    ends = np.array([end for _, end in series])
    held = np.diff(moments)
    mean = float(ends @ held / held.sum()) if held.max() > 0 else float(ends[-1])
    return MOMENTUM * mean + (1.0 - MOMENTUM) * float(ends[-1])


def begin(knobs: Knobs) -> Allocate:
    """A run: the plan, and what jobs would have had on equal shares, are remembered."""
    plan = _Plan(knobs)

    def allocate(active: Active) -> Shares:
        """Who runs in the next round: those that the plan owes rounds, then those with most left."""
        seen = foresee(active, knobs["sees"])
        stale = plan.age >= int(knobs["replan_rounds"]) or plan.rounds_left <= 0
        if stale or set(plan.owed) != set(active.jobs.tolist()):
            plan.renew(active, seen)
        owed = np.array([plan.owed[int(j)] for j in active.jobs])
        weight = np.array([plan.weight[int(j)] for j in active.jobs])
        order = in_order(owed, weight, active.devices.astype(np.float64), plan.rounds_left, seen.left_s)
        shares = np.zeros(active.speed.shape)
        left = active.counts.astype(np.int64).copy()
        for row in order:
            fits = (left >= active.devices[row]) & (active.speed[row] > 0)
            if not fits.any():
                continue
            kind = int(np.argmax(np.where(fits, active.speed[row], -1.0)))
            shares[row, kind] = 1.0
            left[kind] -= active.devices[row]
            plan.owed[int(active.jobs[row])] = max(plan.owed[int(active.jobs[row])] - 1.0, 0.0)
        plan.rounds_left -= 1
        plan.age += 1
        return shares

    return allocate


def in_order(owed: Floats, weight: Floats, devices: Floats, rounds_left: int, left_s: Floats) -> Ints:
    """Who is asked first: jobs that would not get their rounds otherwise, then those that weigh most for their needs.

    Behind them come those that the plan owes nothing, the one with most seconds left first.
    """
    must = owed >= rounds_left - 1e-9
    planned = owed > 1e-9
    by_plan = np.where(planned, -weight / np.maximum(owed * devices, 1e-9), -left_s)
    found: Ints = np.lexsort((by_plan, ~must, ~planned))
    return found


def _window(active: Active, seen: Foresight, weight: Floats, least: Floats, knobs: Knobs) -> Floats | None:
    """Share of the window in which each job runs; None: some cannot have the least that they need.

    Maximises mean weight · log(progress) − k · longest time left after the window; progress is in epochs, at the mean
    seconds of an epoch so far. Variables: share and logarithm of each job, and the longest time left.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    n, window = len(active), float(knobs["rounds"]) * active.round_s
    begun = seen.done / seen.epochs
    gain = window / seen.epoch_s / seen.epochs
    most = np.minimum(1.0, np.maximum(1.0 - begun, 1e-9) / gain)
    if (least > most + 1e-9).any():
        return None
    at = np.arange(n)
    blocks, above = [], []
    for low, high in pairwise(BASES):  # the logarithm stays below each of its chords
        start = 0.0 if low == BASES[0] else low
        slope = (np.log(high) - np.log(low)) / (high - start)
        values = np.concatenate([np.ones(n), -slope * gain])
        blocks.append(coo_array((values, (np.tile(at, 2), np.concatenate([n + at, at]))), shape=(n, 2 * n + 1)))
        above.append(np.log(low) + slope * (begun - start))
    rest = np.concatenate([np.full(n, -window), np.full(n, -1.0)])
    blocks.append(coo_array((rest, (np.tile(at, 2), np.concatenate([at, np.full(n, 2 * n)]))), shape=(n, 2 * n + 1)))
    above.append(-seen.left_s)
    blocks.append(coo_array((active.devices.astype(float), (np.zeros(n, np.int64), at)), shape=(1, 2 * n + 1)))
    above.append(np.array([float(active.counts.sum())]))
    objective = np.concatenate(
        [np.zeros(n), -weight / (n * float(knobs["rounds"])), [float(knobs["makespan_weight"])]],
    )
    lows = np.minimum(least, most)
    bounds = [*zip(lows.tolist(), most.tolist(), strict=True), *((None, 0.0) for _ in range(n)), (0.0, None)]
    found = linprog(objective, A_ub=vstack(blocks), b_ub=np.concatenate(above), bounds=bounds, method="highs")
    if found.x is None:
        if least.any():
            return None
        raise ArithmeticError(f"the linear programme of a policy was not solved: {found.message}")
    shares: Floats = np.clip(found.x[:n], 0.0, 1.0)
    return shares


ROUND_POLICIES.add(
    "shockwave",
    RoundPolicy(
        name="Shockwave (Nash welfare and makespan over a window, batches foreseen)",
        source="Zheng et al., NSDI 2023",
        start=begin,
        fixed=True,
        every_round=True,
        knobs={
            "rounds": 20,
            "replan_rounds": 8,
            "makespan_weight": 1e-3,
            "fairness_power": 12.0,
            "sees": ("belief", "ahead", "now"),
        },
    ),
)
