"""Token latencies of serial and threaded answers, and the wall clock of one engine that runs both."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from windtunnel.programs.forks import SHARES, Fork, divided
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
_HALVINGS = 30


def ratios() -> list[float]:
    """Published token latencies, serial over threaded."""
    return [a / b for a, b in zip(fixed("serial"), fixed("threaded"), strict=True)]


def worst() -> float:
    """The ratio furthest from the printed speedup, over it."""
    off = [own / printed for own, printed in zip(ratios(), fixed("printed"), strict=True)]
    return float(max(off, key=lambda x: abs(x - 1)))


@lru_cache(maxsize=16)
def parallel(width: int, target: float) -> float:
    """Share of an answer in threads of equal length whose critical path is 1 / target of it."""
    return (1 - 1 / target) / (1 - 1 / width)


def wall_clock(values: Values) -> float:
    """Ratio of wall clocks over that of critical paths, from the same simulated answers."""
    target, tokens = ratios()[0], fixed("serial")[0]
    share = parallel(values["width"], target)
    own = {"width": values["width"], "parallel": share, "cv": values["cv"]}
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        concurrency=1,
        input_tokens=fixed("prompt"),
        output_tokens=tokens,
        strategies=[{"best_of_n": {"n": 1, "selector": "random"}}, {"threads": own}],
    )
    serial, threaded = reasoned(scenario)
    paths = tokens / critical(values, share, tokens)
    return float(serial.latency_s["mean"] / threaded.latency_s["mean"] / paths)


def latencies(values: Values, share: float) -> tuple[float, float]:
    """Mean of serial over threaded token latency of each answer, and the ratio of the means, of drawn answers."""
    count, spread = fixed("answers"), float(np.sqrt(np.log1p(values["length_cv"] ** 2)))
    random = np.random.default_rng(1)
    tokens = np.rint(10_000 * np.exp(random.normal(-(spread**2) / 2, spread, count))).astype(np.int64)
    fork = Fork(blocks=1, width=values["width"], parallel=share, cv=values["cv"], instruction_tokens=0, reuse=False)
    own = divided(tokens, fork, random)
    each = own.total / own.critical
    return float(each.mean()), float(own.total.mean() / own.critical.mean())


def share_of(values: Values, speedup: float) -> float:
    """Share of answers in threads at which the mean speedup is as printed, by halving."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if latencies(values, middle)[0] < speedup else (low, middle)
    return (low + high) / 2


def token_latency(values: Values) -> float:
    """Simulated ratio of mean token latencies over the published one, the task that is furthest off."""
    simulated = [latencies(values, share_of(values, printed))[1] for printed in fixed("printed")]
    off = [own / published for own, published in zip(simulated, ratios(), strict=True)]
    return float(max(off, key=lambda x: abs(x - 1)))


def critical(values: Values, share: float, tokens: int) -> float:
    """Mean tokens on the critical path of those answers."""
    fork = Fork(blocks=1, width=values["width"], parallel=share, cv=values["cv"], instruction_tokens=0, reuse=False)
    count = fixed("problems")
    # the first draw of `forked`
    own = divided(np.full(count, tokens, np.int64), fork, np.random.default_rng((0, SHARES, 1)))
    return float(own.critical.mean())


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "worst_ratio": lambda _: worst(),
        "mean_ratio": lambda _: sum(ratios()) / len(ratios()),
        "token_latency": token_latency,
        "wall_clock": wall_clock,
    }
