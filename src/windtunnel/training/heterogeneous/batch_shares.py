"""Shares of the batch for groups of unlike devices that let the slowest group end earliest: `batch_shares: balanced`.

A group's share follows the seconds that one further micro-batch takes where the group trains alone, with its gathers
and reductions. Filling and draining the pipeline takes the same number of passes on every group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.training.simulate_step import step_time
from windtunnel.training.step_setup import StepRequest, clock_of, prepare_at

_MOST = 200_000
"""Number of splits that are tried at most."""


def splits(replicas: Sequence[int], quanta: int) -> Iterator[tuple[int, ...]]:
    """Every way to give the replicas of each group a positive number of micro-batches that sum to `quanta`."""
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
    """Micro-batches per replica of each group in the split whose slowest group takes least.

    Args:
        seconds: (groups,) seconds of one further micro-batch on each group.
        replicas: (groups,) number of replicas of each group.
        quanta: Number of micro-batches of all replicas together.
        stages: Number of pipeline stages; every group pays for filling and draining them.

    Returns:
        One number per group; None where no split makes the batch.
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


def _step_s(request: StepRequest, group: ClusterSpec, replicas: int, rounds: int) -> float:
    """Seconds of a step of one group that trains alone with `rounds` times as many micro-batches as stages."""
    plan = request.plan
    alone = replace(
        request,
        cluster=group,
        training=request.training.model_copy(update={"global_batch": replicas * rounds * plan.pp * plan.mbs}),
        plan=plan.model_copy(update={"dp": replicas, "batch_shares": None}),
    )
    return step_time(prepare_at(alone, clock_of(group, alone.training, alone.coefficient_overrides)))


def with_balanced_shares(request: StepRequest) -> PlanSpec:
    """The plan of a request with the shares of the batch that `batch_shares: balanced` gives each group.

    Raises:
        BadInput: everything wrong with the plan, at once.
    """
    plan, global_batch = request.plan, request.training.global_batch
    inner = plan.tp * plan.pp * plan.cp
    replicas = [group.num_devices // inner for group in request.groups]
    if min(replicas) < 1 or global_batch % plan.mbs:
        return plan.model_copy(update={"batch_shares": None})  # the checks of equal shares name what is wrong
    seconds = []
    for group, number in zip(request.groups, replicas, strict=True):
        once, twice = (_step_s(request, group, number, rounds) for rounds in (1, 2))
        seconds.append(max(twice - once, 1e-12) / plan.pp)
    shares = balanced_shares(seconds, replicas, global_batch // plan.mbs, plan.pp)
    if shares is None:
        rule = f"finds no whole micro-batches for {' and '.join(map(str, replicas))} replicas; change the batch or mbs"
        request.problems.add("plan.batch_shares", "balanced", rule)
        request.problems.raise_if_any()
    return plan.model_copy(update={"batch_shares": shares})
