"""What the validity gate needs next to the curves that were asked for, and its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.learning.algorithm_figures import AlgorithmRun
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.curves import CurveKey, Learned
from windtunnel.learning.drivers.arrival_results import ArrivalCurve
from windtunnel.learning.prepare_learning import BASELINE, ChosenAlgorithm, PreparedLearning
from windtunnel.learning.validity import FinalLosses, Verdict, judge

Find = Callable[[CurveKey], Learned | None]
_DOUBLED_SEEDS = 2
"""Seeds of the runs at twice the learning rate."""
ONE_SEED = Verdict(False, ("one seed: the noise is not known; `seeds: 2` or more tell it",))


def asked(x: PreparedLearning) -> bool:
    """Whether there is an order to check, and seeds to check it by."""
    return x.spec.gate and len(x.algorithms) > 1 and len(x.seeds) > 1


def gate_keys(x: PreparedLearning) -> list[CurveKey]:
    """Curves that only the gate needs: twice the learning rate, one worker alone, and data parallelism.

    The last two are without any attack: they tell whether workers help on this task at all.
    """
    if not asked(x):
        return []
    keys = [_doubled(x.key(a, seed)) for seed in _doubled_seeds(x) for a in x.algorithms]
    keys += [_one_worker(x, seed) for seed in x.seeds]
    if not _has_honest_baseline(x):
        keys += [_baseline(x, seed) for seed in x.seeds]
    return keys


def verdicts(x: PreparedLearning, runs: Sequence[AlgorithmRun], find: Find) -> dict[str, Verdict]:
    """Whether each algorithm's place in the order is resolved; empty where that was not asked.

    Args:
        x: The scenario.
        runs: Its algorithms with their curves.
        find: Gives the curve of a key, None where the user stopped before it.
    """
    if not x.spec.gate or len(x.algorithms) < 2:
        return {}
    if len(x.seeds) < 2:
        return {run.algorithm.label: ONE_SEED for run in runs}
    one = [_last(find(_one_worker(x, seed))) for seed in x.seeds]
    base = next((run.last_losses for run in runs if run.algorithm is x.baseline), None)
    if base is None or not _has_honest_baseline(x):
        base = np.array([_last(find(_baseline(x, seed))) for seed in x.seeds])
    found = [_final(x, run, find) for run in runs if len(run.curves) == len(x.seeds)]
    if not found or not np.isfinite(one).all() or len(base) != len(x.seeds):
        return {}
    return judge(found, one_worker=np.array(one), data_parallel=np.asarray(base))


def _final(x: PreparedLearning, run: AlgorithmRun, find: Find) -> FinalLosses:
    twice = [find(_doubled(x.key(run.algorithm, seed))) for seed in _doubled_seeds(x)]
    doubled: Floats | None = None
    if all(one is not None for one in twice):
        doubled = np.array([_last(one) for one in twice])
    return FinalLosses(label=run.algorithm.label, loss=run.last_losses, doubled=doubled, outer_rounds=run.totals.rounds)


def _last(learned: Learned | None) -> float:
    """Loss at the end; infinite where it diverged or was not learned."""
    if learned is None or not len(learned.curve.loss):
        return float("inf")
    curve = learned.curve
    bad = curve.ended == "diverged" if isinstance(curve, ArrivalCurve) else curve.diverged_at is not None
    return float("inf") if bad else float(curve.loss[-1])


def _doubled_seeds(x: PreparedLearning) -> tuple[int, ...]:
    return x.seeds[:_DOUBLED_SEEDS]


def _doubled(key: CurveKey) -> CurveKey:
    return replace(key, lr={**key.lr, "peak": 2.0 * key.lr["peak"]})


def _baseline(x: PreparedLearning, seed: int) -> CurveKey:
    kind = ALGORITHMS.get(BASELINE)
    knobs = {name: knob.default for name, knob in kind.knobs.items()}
    return replace(x.key(ChosenAlgorithm(label=BASELINE, kind=kind, knobs=knobs, given={}), seed), attack={})


def _has_honest_baseline(x: PreparedLearning) -> bool:
    """Whether plain data parallelism is among the algorithms, and is not attacked."""
    return x.baseline is not None and not x.base.attack


def _one_worker(x: PreparedLearning, seed: int) -> CurveKey:
    return replace(_baseline(x, seed), workers=1)
