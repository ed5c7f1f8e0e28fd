"""The quadratic synchronisation rule: rounds grow as the learning rate falls, H = (α/η)².

Source: Gu et al. 2024 (arXiv 2310.14423); H is set when a round begins, from the learning rate then, and
a warm-up keeps the base.
"""

from __future__ import annotations

from math import floor
from typing import Any

from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms import _parts as parts
from windtunnel.learning.algorithms.base import AlgorithmKind
from windtunnel.learning.compose import At, Composed, ParameterExchange, StateExchange
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.job import Job
from windtunnel.learning.outer.average import Average
from windtunnel.techniques.knobs import Knob


def rounds(lr: LearningRate, steps: int, alpha: float, base: int) -> tuple[int, ...]:
    """Local steps of each round: max(min(max(⌊(α/η)²⌋, base), steps left), 1).

    Args:
        lr: Learning rate of each step.
        steps: Of the whole run; the last round ends with it.
        alpha: In the unit of the learning rate.
        base: Local steps of a round at least, and during the warm-up.
    """
    out: list[int] = []
    done = 0
    while done < steps:
        rate = lr.at(done)
        grown = base
        if done >= lr.warmup_steps:
            grown = max(floor((alpha / rate) ** 2), base) if rate > 0.0 else steps
        out.append(max(min(grown, steps - done), 1))
        done += out[-1]
    return tuple(out)


def build(job: Job, knobs: dict[str, Any]) -> Composed:
    """Rounds of the rule; states of the inner optimizer are averaged with the parameters where asked."""
    problems = parts.problems_of("qsr")
    done, ends = 0, []
    for length in rounds(job.lr, job.steps, knobs["alpha"], knobs["base"]):
        done += length
        ends.append(done - 1)
    when = At(frozenset(ends))
    wire = parts.compressor_of(knobs, problems)
    states = job.inner.states if knobs["average_states"] else ()
    exchange = ParameterExchange(
        compressor=wire,
        outer=Average(1.0),
        period=when,
        feedback=knobs["feedback"],
        via=parts.via_of(knobs),
        states=tuple(StateExchange(name=name, period=when) for name in states),
        evaluate="mean",
    )
    parts.check_exchange(exchange, problems, knobs["may_stall"])
    problems.raise_if_any()
    return Composed(job, parameters=exchange)


ALGORITHMS.add(
    "qsr",
    AlgorithmKind(
        id="qsr",
        summary="local steps whose rounds grow with the inverse square of the learning rate",
        build=build,
        knobs={
            "alpha": Knob(0.0175, 0.0, 1e6, "α: learning rate at which a round would have one step"),
            "base": Knob(4, 1, 1_000_000, "H_base: local steps of a round at least"),
            "average_states": Knob(False, doc="whether states of the inner optimizer are averaged too"),
            **parts.wire_knobs(),
        },
        family="low-comm",
        source="Gu et al. 2024 (arXiv 2310.14423)",
    ),
)
