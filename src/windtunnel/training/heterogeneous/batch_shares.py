"""Micro-batches of groups of unlike devices, so that the slowest group is done first: `batch_shares: balanced`.

Each group's share follows what further micro-batches take where it trains alone, gathers and reductions of each
included; the ramp of a pipeline is the same number of passes for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windtunnel.errors import ProblemList
from windtunnel.specs.cluster import ClusterSpec, MixedCluster
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.techniques.base import Applied
from windtunnel.training.simulate import step_time
from windtunnel.training.stage_costs.pricing_cache import PricingCache
from windtunnel.training.step_setup import clock_of, prepare_at

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
        seconds: of one further micro-batch of each group.
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


def _step_s(
    model: ModelSpec,
    group: ClusterSpec,
    training: TrainingSpec,
    plan: PlanSpec,
    techniques: tuple[Applied, ...],
    problems: ProblemList,
    overrides: dict[str, object] | None,
    cache: PricingCache | None,
    replicas: int,
    rounds: int,
) -> float:
    """Seconds of a group that trains alone, `rounds` times as many micro-batches as stages."""
    part = training.model_copy(update={"global_batch": replicas * rounds * plan.pp * plan.mbs})
    own = plan.model_copy(update={"dp": replicas, "batch_shares": None})
    clock = clock_of(group, training, overrides)
    return step_time(prepare_at(model, group, part, own, techniques, problems, overrides, clock, cache))


def with_balanced_shares(
    model: ModelSpec,
    cluster: MixedCluster,
    training: TrainingSpec,
    plan: PlanSpec,
    techniques: tuple[Applied, ...],
    problems: ProblemList,
    overrides: dict[str, object] | None,
    cache: PricingCache | None,
) -> PlanSpec:
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
        args = (model, group, training, plan, techniques, problems, overrides, cache, number)
        once, twice = (_step_s(*args, rounds) for rounds in (1, 2))
        seconds.append(max(twice - once, 1e-12) / plan.pp)
    shares = balanced_shares(seconds, replicas, training.global_batch // plan.mbs, plan.pp)
    if shares is None:
        rule = f"finds no whole micro-batches for {' and '.join(map(str, replicas))} replicas; change the batch or mbs"
        problems.add("plan.batch_shares", "balanced", rule)
        problems.raise_if_any()
    return plan.model_copy(update={"batch_shares": shares})
