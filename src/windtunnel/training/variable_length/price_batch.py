"""A step whose micro-batches differ in length: of several drawn batches, the one nearest their mean is simulated.

Each replica runs alone up to the first shared collective and waits there for the slowest one. The program of a step is
therefore that of its slowest replica. Where ranks meet in every micro-batch (sharded parameters, experts over
replicas), each micro-batch takes the seconds of its slowest rank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.schedules.table import InstructionTable
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.stage_costs.stage_costs import StageCosts, build_stage_costs
from windtunnel.training.stage_costs.step_inputs import StepInputs
from windtunnel.training.variable_length.pass_time_table import PassTable, priced
from windtunnel.training.variable_length.rank_lanes import LAYOUTS, Case, Lanes, coupled


@dataclass(frozen=True, slots=True)
class Batch:
    """The drawn batch that is simulated, and a summary of all drawn batches."""

    tokens: float
    """Tokens of its documents, without padding."""
    hardware_flop: float
    """FLOPs that all devices run in the step; linear layers compute padding, attention does not."""
    model_flop_per_token: float
    summary: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Varied:
    """The slowest replica of the simulated batch: its plan, its virtual stages, and the batch."""

    plan: ResolvedPlan
    stages: StageCosts
    batch: Batch


def price_drawn_batch(inputs: StepInputs, plan: ResolvedPlan, schedule: InstructionTable) -> Varied:
    """Draw batches, lay them out and pick the one whose step is nearest the mean.

    Args:
        inputs: What the plan is priced with; its training has `lengths`.
        plan: The plan with nothing left open.
        schedule: Which pipeline stage each virtual stage is on, and whether backward is split.
    """
    training = inputs.training
    spec = training.lengths
    assert spec is not None
    ranks, capacity = plan.dp * plan.cp, plan.mbs * training.seq_len / plan.cp

    def price(width: int, length: float) -> StageCosts:
        seq_len = max(round(capacity * width), 1)
        work = training.model_copy(update={"lengths": None, "mean_document_length": length, "seq_len": seq_len})
        cut = replace(plan, cp=width, dp=ranks // width, mbs=1)
        return build_stage_costs(replace(inputs, training=work), cut, schedule)

    longest = float(min(spec.max or training.seq_len, training.seq_len))
    table = priced(widths_of(inputs.model, plan, ranks), capacity, plan.pp, longest, price)
    case = Case(
        spec=spec,
        table=table,
        seq_len=training.seq_len,
        rows=training.global_batch,
        mbs=plan.mbs,
        cp=plan.cp,
        ranks=ranks,
        per_node=max(min(inputs.cluster.scale_up_domain // plan.tp, ranks), 1),
        m=plan.m,
        move_s=_mover(inputs.model, plan, price(plan.cp, longest)),
    )
    layout = LAYOUTS.get(plan.sequence_groups)
    rng = np.random.default_rng(spec.seed)
    batches = [layout(case, one) for one in rng.spawn(spec.batches)]
    return _nearest_mean(batches, case, plan, training, price)


def _nearest_mean(
    batches: list[Lanes],
    case: Case,
    plan: ResolvedPlan,
    training: TrainingSpec,
    price: Callable[[int, float], StageCosts],
) -> Varied:
    """The slowest replica of the batch whose step is nearest to the mean step of all batches."""
    table = case.table
    group = lanes_that_meet(plan, training, flat=plan.sequence_groups != "fixed")
    met = [coupled(batch.seconds, group) for batch in batches]
    steps = np.array([_step_s(lanes, plan).max() for lanes in met])
    chosen = int(np.abs(steps - steps.mean()).argmin())
    batch, lanes = batches[chosen], met[chosen]
    slowest = _even(lanes[int(_step_s(lanes, plan).argmax())], plan)
    width = max(batch.shares, key=lambda w: batch.shares[w])
    length = batch.squares / batch.tokens
    fixed = plan.sequence_groups == "fixed"
    typical = _like(slowest, table, width, length) if fixed else min(length, case.capacity * width)
    stages = price(width, typical)
    base = np.maximum(stages.seconds, 1e-30)
    factor = np.where(stages.seconds > 0, slowest / base, 0.0)
    stages = replace(stages, factor=np.moveaxis(factor, 0, -1))
    hardware, per_token = table.flop_per_token(length)
    summary = _summary(batches, steps, chosen, table, group)
    found = Batch(batch.tokens, hardware * batch.computed, per_token, summary)
    return Varied(replace(plan, m=len(slowest)), stages, found)


def widths_of(model: ModelSpec, plan: ResolvedPlan, ranks: int) -> list[int]:
    """Numbers of ranks that may share a sequence: cp and powers of two that divide all ranks.

    For all-to-all exchange they also divide the attention heads.
    """
    if plan.sequence_groups == "fixed":
        return [plan.cp]
    most = plan.cp if plan.sequence_groups == "by_length" else ranks
    sizes = {2**k for k in range(ranks.bit_length())} | {plan.cp}
    heads = model.num_attention_heads // plan.tp if plan.cp_kind == "all_to_all" else 0
    return sorted(w for w in sizes if w <= most and ranks % w == 0 and (not heads or heads % w == 0))


def lanes_that_meet(plan: ResolvedPlan, training: TrainingSpec, *, flat: bool) -> int:
    """Number of neighbouring lanes that wait for one another in every micro-batch; 1 where they only meet at the end.

    Args:
        plan: The plan with nothing left open.
        training: its work.
        flat: lanes are ranks, not replicas.
    """
    lanes, cut = (plan.dp * plan.cp, 1) if flat else (plan.dp, plan.cp)
    group = 1
    if plan.zero == 3 or (plan.zero == 2 and plan.pp == 1 and plan.m > 1 and training.gradient_accumulation_sync):
        group = max(plan.shard_group // cut, 1)
    if plan.ep > 1:
        group = max(group, plan.ep * plan.etp // (plan.tp * cut))
    return min(group, lanes)


def _step_s(lanes: Floats, plan: ResolvedPlan) -> Floats:
    """Seconds that each lane is busy, with filling the pipeline by its longest micro-batch, shape (lanes,)."""
    busy = lanes.sum(axis=(2, 3)) / plan.pp
    return np.asarray(busy.sum(axis=1) + (plan.pp - 1) / plan.vpp * busy.max(axis=1))


def _like(lane: Floats, table: PassTable, width: int, length: float) -> float:
    """Document length, in tokens, at which equal micro-batches take as long as those of a lane.

    It stands for the lane where its time is split into classes. The answer is `length` where the table does not depend
    on length, as where the exchange of context parallelism hides attention.
    """
    known = table.lengths[width]
    busy = table.seconds[width].sum(axis=(1, 2))
    full = max(np.count_nonzero(lane.sum(axis=(1, 2))), 1)
    wanted = lane.sum() / full
    if abs(float(table.of(width, length).sum()) / wanted - 1.0) < 0.01:
        return length
    return float(np.interp(wanted, busy, known))


def _even(lane: Floats, plan: ResolvedPlan) -> Floats:
    """The lane with empty micro-batches up to a number that the schedule takes: interleaved ones, a multiple of pp."""
    multiple = plan.pp if plan.vpp > 1 else 1
    missing = -len(lane) % multiple
    return np.concatenate([lane, np.zeros((missing, *lane.shape[1:]))])


def _mover(model: ModelSpec, plan: ResolvedPlan, stages: StageCosts) -> Any:
    """Seconds to move tokens between ranks before and after attention, forward and backward, on one stage."""
    bytes_per_token = 2.0 * model.hidden_size / (plan.tp if plan.sp else 1)
    layers = float(sum(plan.stage_layers)) / plan.copies / plan.pp

    def move_s(inside: float, between: float) -> float:
        seconds = 0.0
        for tokens, crosses in ((inside, False), (between, True)):
            if tokens > 0:
                seconds += 4.0 * layers * float(stages.network.p2p(tokens * bytes_per_token, crosses).alone_s)
        return seconds

    return move_s


def _summary(batches: list[Lanes], steps: Floats, chosen: int, table: PassTable, group: int) -> dict[str, Any]:
    """The entries of a result that describe its drawn batches."""
    one = batches[chosen]
    work = one.busy_s(table.stages).sum(axis=1)
    return {
        "batches": len(batches),
        "tokens": one.tokens,
        "padding": 1.0 - one.tokens / one.computed,
        "mean_squared_over_mean": one.squares / one.tokens,
        "slowest_over_mean": float(work.max() / work.mean()),
        "step_low": float(steps.min() / steps[chosen]),
        "step_high": float(steps.max() / steps[chosen]),
        "ranks_of_a_sequence": {str(w): share for w, share in one.shares.items()},
        "lanes_that_meet": group,
    }
