"""Divisions that must come out even. A plan that passes here does not stop a target at its first assertion.

Each function checks one rule and adds a problem in the plan's words; targets put together the rules they enforce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.training.step_setup import PreparedStep


def world_size(prepared: PreparedStep, problems: ProblemList) -> None:
    """Ranks are tp · pp · cp · dp."""
    plan, devices = prepared.plan, prepared.cluster.num_devices
    if plan.tp * plan.pp * plan.cp * plan.dp != devices:
        product = plan.tp * plan.pp * plan.cp * plan.dp
        problems.add("plan.dp", plan.dp, f"tp · pp · cp · dp = {product} must equal the {devices} devices")


def batch(prepared: PreparedStep, problems: ProblemList) -> None:
    """The global batch is a whole number of micro-batches a replica."""
    plan, sequences = prepared.plan, prepared.training.global_batch
    if sequences % (plan.mbs * plan.dp):
        rule = f"must be divisible by mbs · dp = {plan.mbs} · {plan.dp}"
        problems.add("training.global_batch", sequences, rule)


def heads(prepared: PreparedStep, problems: ProblemList, *, kv_must_divide: bool = False) -> None:
    """Attention heads split evenly over tp; key/value heads are a multiple or a divisor of it."""
    tp, model = prepared.plan.tp, prepared.model
    if model.num_attention_heads % tp:
        problems.add("plan.tp", tp, f"must divide num_attention_heads {model.num_attention_heads}")
    if not model.is_mla and model.kv_heads % tp and (kv_must_divide or tp % model.kv_heads):
        rule = "must divide" if kv_must_divide else "must divide or be a multiple of"
        problems.add("plan.tp", tp, f"{rule} num_key_value_heads {model.kv_heads}")


def experts(prepared: PreparedStep, problems: ProblemList) -> None:
    """Experts split evenly over ep, and expert groups tile the ranks of one pipeline stage."""
    plan, model = prepared.plan, prepared.model
    if plan.ep > 1 and not model.num_experts:
        problems.add("plan.ep", plan.ep, f"must be 1: {model.name} has no experts")
    elif model.num_experts % plan.ep:
        problems.add("plan.ep", plan.ep, f"must divide num_experts {model.num_experts}")
    ranks = plan.tp * plan.cp * plan.dp
    if ranks % (plan.ep * plan.etp):
        problems.add("plan.ep", plan.ep, f"ep · etp = {plan.ep * plan.etp} must divide tp · cp · dp = {ranks}")


def stages(prepared: PreparedStep, problems: ProblemList, *, interleaved_needs_multiple: bool = True) -> None:
    """Layers fill pp · vpp virtual stages; interleaving needs a pipeline and rounds of pp micro-batches."""
    plan, depth = prepared.plan, len(prepared.model.layer_kinds())
    parts = plan.pp * plan.vpp
    if len(plan.stage_layers) != parts or sum(plan.stage_layers) != depth:
        rule = f"must be pp · vpp = {parts} entries that sum to the {depth} layers"
        problems.add("plan.stage_layers", list(plan.stage_layers), rule)
    if plan.vpp > 1 and plan.pp == 1:
        problems.add("plan.vpp", plan.vpp, "must be 1 without a pipeline (pp 1)")
    if interleaved_needs_multiple and plan.vpp > 1 and plan.m % plan.pp:
        rule = f"makes {plan.m} micro-batches a replica, which interleaving needs as a multiple of pp {plan.pp}"
        problems.add("training.global_batch", prepared.training.global_batch, rule)


def sequence(prepared: PreparedStep, problems: ProblemList) -> None:
    """A sequence cuts into 2 · cp balanced chunks, and each rank's part into tp."""
    plan, tokens = prepared.plan, prepared.training.seq_len
    parts = (2 * plan.cp if plan.cp > 1 else 1) * (plan.tp if plan.sp else 1)
    if tokens % parts:
        rule = f"must be divisible by {parts} (2 · cp balanced chunks, cut by tp with sequence parallelism)"
        problems.add("training.seq_len", tokens, rule)


def shards(prepared: PreparedStep, problems: ProblemList) -> None:
    """A shard group divides dp · cp."""
    plan = prepared.plan
    if plan.zero and (plan.dp * plan.cp) % plan.shard_group:
        problems.add("plan.shard_group", plan.shard_group, f"must divide dp · cp = {plan.dp * plan.cp}")
