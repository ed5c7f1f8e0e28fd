"""What serving engines refuse when they start, such as divisions that do not come out even; what has no option."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.exporters.servers.deployed import Deployed, Pool
    from windtunnel.exporters.servers.target import ServerDraft


def heads(deployed: Deployed, pool: Pool, problems: ProblemList) -> None:
    """Key/value heads are split, or copied a whole number of times, over tp."""
    tp, model = pool.spec.plan.tp, deployed.model
    if model.num_attention_heads % tp:
        problems.add(f"{pool.where}.plan.tp", tp, f"must divide num_attention_heads {model.num_attention_heads}")
    elif not model.is_mla and model.kv_heads % tp and tp % model.kv_heads:
        rule = f"must divide or be a multiple of num_key_value_heads {model.kv_heads}"
        problems.add(f"{pool.where}.plan.tp", tp, rule)


def experts(deployed: Deployed, pool: Pool, problems: ProblemList) -> None:
    """Experts split evenly over the ranks that hold them whole."""
    ep, model = pool.spec.plan.ep, deployed.model
    if ep > 1 and not model.num_experts:
        problems.add(f"{pool.where}.plan.ep", ep, f"must be 1: {model.name} has no experts")
    elif ep > 1 and model.num_experts % ep:
        problems.add(f"{pool.where}.plan.ep", ep, f"must divide num_experts {model.num_experts}")


def batch(pool: Pool, problems: ProblemList, *, longest_fits: bool = False) -> None:
    """An iteration has a token for each sequence, and without chunks one for each token of the longest prompt."""
    limits, ranks = pool.instance.limits, max(pool.spec.plan.dp, 1) if pool.instance.defaults.per_rank else 1
    batched, seqs = limits.budget // ranks, limits.max_seqs // ranks
    if batched < seqs:
        rule = f"must be at least max_num_seqs {seqs}"
        problems.add(f"{pool.where}.limits.max_num_batched_tokens", batched, rule)
    longest = pool.instance.max_model_len
    if longest_fits and not limits.chunked and longest and batched < longest:
        rule = f"must be at least max_model_len {longest} when prompts are not cut into chunks"
        problems.add(f"{pool.where}.limits.max_num_batched_tokens", batched, rule)


def block(pool: Pool, problems: ProblemList, allowed: tuple[int, ...]) -> None:
    """Blocks of the cache have a size that its kernels take."""
    size = pool.instance.limits.block
    if allowed and size not in allowed:
        rule = f"must be one of {', '.join(map(str, allowed))}"
        problems.add(f"{pool.where}.kv.block_size", size, rule)


def context(pool: Pool, problems: ProblemList, longest: int) -> None:
    """`max_model_len` does not pass what the model's positions reach."""
    told = pool.spec.limits.max_model_len
    if told and longest and told > longest:
        problems.add(f"{pool.where}.limits.max_model_len", told, f"must be at most max_position_embeddings {longest}")


def nodes(pool: Pool, problems: ProblemList) -> None:
    """An instance takes whole nodes, or lies inside one."""
    size = pool.cluster.devices_per_node
    if pool.devices > size and pool.devices % size:
        rule = f"tp · pp · dp · cp = {pool.devices} must be a multiple of the {size} devices of a node, or fit into one"
        problems.add(f"{pool.where}.plan", pool.devices, rule)


def splits(deployed: Deployed, problems: ProblemList) -> None:
    """Prefill needs decode, and the other way round."""
    roles = {pool.spec.role for pool in deployed.pools}
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        if role in roles and other not in roles:
            problems.add("serving.pools", sorted(roles), f"has {role} and no {other}: one is needed for the other")
    if "mixed" in roles and len(roles) > 1:
        problems.add("serving.pools", sorted(roles), "mixed pools next to prefill and decode pools cannot be launched")


def whole_ranks(pool: Pool, problems: ProblemList) -> None:
    """Ranks of attention data parallelism are not torn over nodes."""
    plan = pool.spec.plan
    if plan.dp > 1 and plan.tp * plan.pp > pool.cluster.devices_per_node:
        rule = (
            f"tp · pp = {plan.tp * plan.pp} must fit into a node of {pool.cluster.devices_per_node} devices when "
            "dp is above 1"
        )
        problems.add(f"{pool.where}.plan.tp", plan.tp, rule)


def unsaid(pool: Pool, draft: ServerDraft) -> None:
    """Note choices of a plan for which no engine has an option."""
    plan = pool.spec.plan
    if pool.spec.limits.host_ahead:
        draft.lacks(f"{pool.name}: limits.host_ahead: the server's own scheduler decides")
    if plan.balance_prompts:
        draft.lacks(f"{pool.name}: balance_prompts: each rank computes attention of its own prompts")
    if plan.all_reduce != "auto":
        draft.lacks(f"{pool.name}: all_reduce {plan.all_reduce}: the server chooses how ranks sum")
    if plan.collective_library:
        draft.lacks(f"{pool.name}: collective_library {plan.collective_library}: install it next to the server")
