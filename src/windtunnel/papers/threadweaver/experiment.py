"""Token latencies of serial and threaded answers, and the wall clock of one engine that runs both."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel.programs.forks import SHARES, Fork, divided
from windtunnel.reproduce import ClaimResult
from windtunnel.reproduce.claims import Measure, results
from windtunnel.reproduce.programs import on_one_node, reasoned
from windtunnel.reproduce.settings import Values, load

TITLE = "ThreadWeaver (Lian et al. 2025)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.threadweaver")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


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
        "wall_clock": wall_clock,
    }


def run() -> list[ClaimResult]:
    """Token latencies, and the wall clock."""
    return results(setting(), "threadweaver", measures())
