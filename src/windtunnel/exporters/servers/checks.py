"""What serving engines refuse when they start, such as divisions that do not come out even; what has no option."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.engine_defaults import legal, version_of

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.exporters.servers.deployed import Deployed, Pool
    from windtunnel.exporters.servers.target import ServerDraft


def rules(deployed: Deployed, target: str, version: str, problems: ProblemList) -> None:
    """Rules of the release that is written (`stacks/serving`), for each pool."""
    for pool in deployed.pools:
        limits, plan = pool.instance.limits, pool.spec.plan
        ranks = max(plan.dp, 1) if target != "sglang" else 1
        batch = legal.Batch(
            sequences=max(limits.max_seqs // ranks, 1),
            tokens=limits.budget // ranks,
            chunked=limits.chunked,
            block_size=limits.block if target == "sglang" else pool.spec.kv.block_size,
            max_model_len=pool.instance.max_model_len,
        )
        facts = legal.facts_of(deployed.serving, pool.spec, deployed.model, pool.cluster, batch)
        for one in legal.refuse(target, version_of(version), facts, pool.where, problems):
            if one.effect == "lifted":
                problems.add(one.field, one.value, one.rule)


def splits(deployed: Deployed, problems: ProblemList) -> None:
    """Prefill needs decode, and the other way round."""
    roles = {pool.spec.role for pool in deployed.pools}
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        if role in roles and other not in roles:
            problems.add("serving.pools", sorted(roles), f"has {role} and no {other}: one is needed for the other")
    if "mixed" in roles and len(roles) > 1:
        problems.add("serving.pools", sorted(roles), "mixed pools next to prefill and decode pools cannot be launched")


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
