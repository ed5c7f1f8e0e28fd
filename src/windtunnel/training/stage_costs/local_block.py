"""One rank's part of a block: its operators after the tensor, expert and context passes, and its groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windtunnel.cost.expert_load import ExpertLoad, slowest
from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.graph import STYLES, Block, Operator, Style
from windtunnel.network.groups import GroupPlacement, Mesh
from windtunnel.parallel.branches import is_parallel, one_exchange
from windtunnel.parallel.context import context_parallel
from windtunnel.parallel.expert import expert_parallel
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.parallel.tensor import tensor_parallel
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.stage_costs.adapters import is_trained


def communication_groups(mesh: Mesh, plan: ResolvedPlan) -> dict[str, GroupPlacement]:
    """Axis → where the ranks sit that exchange activations of one block."""
    groups = {}
    if plan.tp > 1:
        groups["tp"] = mesh.placement("tp")
    if plan.cp > 1:
        a2a = {"all_to_all": plan.cp, "hybrid": plan.cp_all_to_all}.get(plan.cp_kind, 1)
        stride = mesh.strides["cp"]
        if a2a > 1:
            groups["cp_a2a"] = mesh.strided(a2a, stride)
        if plan.cp // a2a > 1:
            groups["cp_ring"] = mesh.strided(plan.cp // a2a, stride * a2a)
        groups["cp"] = mesh.placement("cp")
    if plan.ep > 1:
        groups["ep"] = mesh.strided(plan.ep, plan.etp)
    if plan.etp > 1:
        groups["etp"] = mesh.strided(plan.etp, 1)
    return groups


def local_block(
    block: Block,
    model: ModelSpec,
    training: TrainingSpec,
    plan: ResolvedPlan,
    tokens: float,
    *,
    eager_merge: bool = False,
) -> list[Operator]:
    """Operators of one rank: tensor, expert and context passes in their fixed order."""
    operators = tensor_parallel(block, plan, float(model.hidden_size), tokens)
    if plan.join_branches and is_parallel(block):
        operators = one_exchange(operators)
    operators = expert_parallel(
        operators,
        plan,
        hidden=float(model.hidden_size),
        imbalance=expert_imbalance(training, plan, model),
        fused_experts=plan.fused_experts,
        masks=training.moe_gate == "masks",
    )
    operators = context_parallel(operators, plan, eager_merge=eager_merge)
    return operators if is_trained(block, training) else [replace(op, trainable=False) for op in operators]


def expert_imbalance(training: TrainingSpec, plan: ResolvedPlan, model: ModelSpec) -> float:
    """Load of the busiest expert rank over the mean, from measured shares or a law of popularity if given.

    A capacity bounds it: padded, all ranks have as many rows; not padded, none has more than the capacity.
    """
    if model.has_fixed_expert_rows:
        return 1.0
    routed = _routed_imbalance(training, plan, model)
    return routed if model.capacity_factor is None else min(routed, max(model.capacity_factor, 1.0))


def _routed_imbalance(training: TrainingSpec, plan: ResolvedPlan, model: ModelSpec) -> float:
    """Load of the busiest expert rank over the mean, before a capacity drops any of it."""
    load = training.expert_load
    if load.popularity is not None and plan.ep > 1:
        tokens = plan.mbs * training.seq_len / (plan.cp * plan.tp) * plan.ep * plan.etp
        drawn = ExpertLoad(popularity=load.popularity)
        return float(slowest(model.num_experts, model.num_experts_per_tok, plan.ep, drawn, np.array([tokens]))[0][0])
    if load.loads and plan.ep > 1:
        shares = np.asarray(load.loads, np.float64).reshape(plan.ep, -1).sum(axis=1)
        return float(shares.max() / shares.mean())
    return load.imbalance if plan.ep > 1 else 1.0


UNFUSED_PERMUTE = (3.5, 4.0)
"""Passes over routed tokens of one permutation in single operators, mean of both. There: rows are selected (2), their
gradients added where they came from (3). Back: rows are scaled (2) and added to zeros (3); gradients are selected,
scaled, and multiplied with the rows for those of the probabilities (5). Source: Megatron-Core
`transformer/moe/moe_utils.py`, `permute` and `unpermute` without `fused`."""


def style_of(behaviour: Behaviour, training: TrainingSpec, plan: ResolvedPlan) -> Style:
    """How element-wise work is fused and what layers keep."""
    name = "compiled" if is_compiled(behaviour, training) and behaviour.style == "eager" else behaviour.style
    style = replace(STYLES[name], expands_kv=behaviour.expands_kv)
    if training.fused_permute is False:
        style = replace(style, permute=UNFUSED_PERMUTE)
    return replace(style, rope=STYLES["eager"].rope) if rotates_by_operators(behaviour, plan) else style


def rotates_by_operators(behaviour: Behaviour, plan: ResolvedPlan) -> bool:
    """Whether a stack that has kernels for rotary embedding does without them."""
    return behaviour.style == "fused" and not plan.fused_rope


def is_compiled(behaviour: Behaviour, training: TrainingSpec) -> bool:
    """Whether layers are compiled: as asked for, else the framework's default."""
    return behaviour.compile if training.compile is None else training.compile
