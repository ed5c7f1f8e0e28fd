"""Messages of an algorithm that is timed but never run: it is built on the tensors of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windtunnel.errors import ProblemList
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.algorithms.base import LockStepAlgorithm, step_work_of
from windtunnel.learning.inner import INNER
from windtunnel.learning.inner.base import LearningRate
from windtunnel.learning.job import Job
from windtunnel.learning.randomness import Draws
from windtunnel.learning.timing.schedule import Messages
from windtunnel.learning.timing.target import Target
from windtunnel.techniques.knobs import with_defaults


def built_on_target(
    algorithm: str,
    knobs: Mapping[str, Any],
    target: Target,
    workers: int,
    steps: int,
    *,
    lr: LearningRate | None = None,
    inner: str = "adamw",
    seed: int = 1,
) -> LockStepAlgorithm:
    """An algorithm as it would run on the target; nothing is learned.

    Args:
        algorithm: Id of a lock-step algorithm.
        knobs: Laid over its defaults.
        target: Whose tensors it is built on.
        workers: How many there are.
        steps: Local steps of each.
        lr: Read by rules that follow it (QSR); absent: 0.001 throughout.
        inner: Id of the inner optimizer, whose states some algorithms send.
        seed: Of its draws.

    Raises:
        BadInput: no such algorithm, or knobs that it does not take.
    """
    kind = ALGORITHMS.get(algorithm, "algorithm")
    problems = ProblemList()
    settled = with_defaults(kind.knobs, knobs, f"algorithm.{algorithm}", problems)
    problems.raise_if_any()
    own = INNER.get(inner, "inner")
    job = Job(
        workers=workers,
        steps=steps,
        shapes=target.shapes,
        inner=own.build({name: knob.default for name, knob in own.knobs.items()}),
        lr=lr or LearningRate(1e-3),
        draws=Draws(seed),
    )
    built: LockStepAlgorithm = kind.build(job, settled)
    return built


def messages_on_target(
    algorithm: str, knobs: Mapping[str, Any], target: Target, workers: int, steps: int, **fields: Any
) -> Messages:
    """What an algorithm sends in each local step; see `built_on_target`."""
    return built_on_target(algorithm, knobs, target, workers, steps, **fields).messages


def with_work_of(algorithm: object, target: Target) -> Target:
    """The target as an algorithm computes on it: one whose step takes two gradients has steps of twice the seconds."""
    work = step_work_of(algorithm)
    return target if work == 1.0 else replace(target, step_s=target.step_s * work)
