"""Micro-batches of groups of unlike devices, so that the slowest group is done first: `batch_shares: balanced`.

Each group's share follows what one micro-batch takes on its slowest stage, from the same parts that the step runs; the
bubble is the same number of passes for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from windtunnel.errors import ProblemList
from windtunnel.specs.cluster import MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.known import Known
from windtunnel.training.simulate import clock_of, resolve_step

_MOST = 200_000
"""Splits that are looked at."""


def splits(replicas: Sequence[int], quanta: int) -> Iterator[tuple[int, ...]]:
    """Positive micro-batches of each group's replicas that make `quanta` in all."""
    if len(replicas) == 1:
        if quanta > 0 and quanta % replicas[0] == 0:
            yield (quanta // replicas[0],)
        return
    for m in range(1, quanta // replicas[0] + 1):
        for rest in splits(replicas[1:], quanta - m * replicas[0]):
            yield (m, *rest)


def balanced_shares(
    seconds: Sequence[float], replicas: Sequence[int], quanta: int, stages: int
) -> tuple[int, ...] | None:
    """The split whose slowest group takes least; None where none makes the batch.

    Args:
        seconds: of one micro-batch on a group's slowest stage.
        replicas: of each group.
        quanta: micro-batches of all replicas together.
        stages: of the pipeline, whose ramp every group pays.
    """
    best: tuple[tuple[float, float], tuple[int, ...]] | None = None
    for n, split in enumerate(splits(replicas, quanta)):
        if n == _MOST:
            break
        took = [(m + stages - 1) * t for m, t in zip(split, seconds, strict=True)]
        key = (max(took), sum(took))
        if best is None or key < best[0]:
            best = key, split
    return best[1] if best else None


def with_balanced_shares(
    model: ModelSpec, cluster: MixedCluster, training: TrainingSpec, plan: PlanSpec, techniques: tuple[Applied, ...],
    problems: ProblemList, overrides: dict[str, object] | None, known: Known | None,
) -> PlanSpec:  # fmt: skip
    """The plan with shares for `balanced`.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    inner = plan.tp * plan.pp * plan.cp
    replicas = [group.num_devices // inner for group in cluster.groups]
    if min(replicas) < 1 or training.global_batch % plan.mbs:
        return plan.model_copy(update={"batch_shares": None})  # what is wrong with it is said as for equal shares
    seconds = []
    for group, number in zip(cluster.groups, replicas, strict=True):
        part = training.model_copy(update={"global_batch": number * plan.pp * plan.mbs})
        own = plan.model_copy(update={"dp": number, "batch_shares": None})
        step = resolve_step(
            model, group, part, own, techniques, problems, coefficient_overrides=overrides,
            clock=clock_of(group, training, overrides), known=known,
            spread=cluster.num_devices > cluster.scale_up_domain,
        )  # fmt: skip
        stage_of = step.table.placement[:, 0].astype(np.int64)
        seconds.append(float(np.bincount(stage_of, weights=step.parts.seconds.sum(axis=0)).max()))
    shares = balanced_shares(seconds, replicas, training.global_batch // plan.mbs, plan.pp)
    if shares is None:
        rule = f"finds no whole micro-batches for {' and '.join(map(str, replicas))} replicas; change the batch or mbs"
        problems.add("plan.batch_shares", "balanced", rule)
        problems.raise_if_any()
    return plan.model_copy(update={"batch_shares": shares})
