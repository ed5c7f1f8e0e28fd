"""`kv.tiers` of pools → levels of the instances of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.errors import BadInput, ProblemList
from windtunnel.serving.tiers.kinds import TIERS
from windtunnel.serving.tiers.lending import PARTIAL_BYTES, Exchange, Lending
from windtunnel.serving.tiers.memory import LevelPlan, Memory
from windtunnel.serving.tiers.similar import SimilarPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.serving.deployment import Deployment, Pool
    from windtunnel.specs.serving import KvSpec, PoolSpec, ServingSpec

QUERY_BYTES = 2.0
"""Of one element of a query: 16 bits."""

def check_tiers(kv: KvSpec, where: str, *, caching: bool, problems: ProblemList) -> None:
    """Problems of a pool's levels."""
    if not kv.tiers:
        if kv.tier_prefetch:
            problems.add(f"{where}.tier_prefetch", True, "needs kv.tiers")
        return
    if not caching:
        problems.add(f"{where}.prefix_caching", False, "must be true with kv.tiers: they keep what is found again")
    if kv.tier_prefetch and (len(kv.tiers) < 2 or kv.tiers[0].kind == "remote"):
        problems.add(f"{where}.tier_prefetch", True, "needs a level of the instance, and one below to read from")
    seen: list[str] = []
    for i, tier in enumerate(kv.tiers):
        try:
            kind = TIERS.get(tier.kind, f"{where}.tiers[{i}].kind")
        except BadInput as error:
            problems.extend(error.problems)
            continue
        if tier.kind in seen:
            problems.add(f"{where}.tiers[{i}].kind", tier.kind, "is there twice; one level of each kind")
        if kind.shared and i + 1 < len(kv.tiers):
            problems.add(f"{where}.tiers[{i}].kind", tier.kind, "must come last: all instances share it")
        seen.append(tier.kind)


def check_similar(kv: KvSpec, where: str, *, caching: bool, problems: ProblemList) -> None:
    """Problems of approximate reuse."""
    if kv.similar is not None and not caching:
        problems.add(f"{where}.prefix_caching", False, "must be true with kv.similar: it is reuse of what is kept")
    if kv.similar is not None and kv.tiers:
        problems.add(f"{where}.similar", "given", "and kv.tiers exclude each other")


def check_lending(serving: ServingSpec, pool: PoolSpec, where: str, problems: ProblemList) -> None:
    """Problems of a pool whose instances lend each other blocks."""
    if not pool.kv.lending:
        return
    if len(serving.pools) > 1 or pool.plan.pp > 1 or serving.autoscale is not None:
        rule = "is simulated for one pool of instances without pipelines that are there all the time"
        problems.add(f"{where}.kv.lending", True, rule)
    if pool.replicas == 1:
        problems.add(f"{where}.kv.lending", True, "needs replicas above 1: there is nobody to lend")


def memory_of(d: Deployment, pool: Sequence[int]) -> Memory | None:
    """Levels of a deployment; None where no pool has any.

    Args:
        d: what serves.
        pool: of each instance of the loop.
    """
    lending = _lending(d)
    similar = [_similar(p) for p in d.pools]
    if lending is None and not any(similar) and not any(p.spec.kv.tiers for p in d.pools):
        return None
    plans, layers = [], []
    for p in d.pools:
        plan, kv = p.spec.plan, p.spec.kv
        devices = plan.tp * plan.pp  # that hold a block
        size = p.instance.capacity.bytes_per_token * p.limits.block * devices
        own = []
        for tier in kv.tiers:
            kind = TIERS.get(tier.kind)
            rate = tier.bytes_per_s or kind.bytes_per_s(p.cluster, devices)
            latency = kind.latency_s(p.cluster) if tier.latency_s is None else tier.latency_s
            share = 1 if kind.shared else plan.pp  # stages are instances of the loop, each with its share
            blocks = int(tier.capacity_bytes // size) // share
            own.append(LevelPlan(tier.kind, blocks, size / rate, latency, kind.shared))
        plans.append(tuple(own))
        layers.append(max(len(d.model.layer_kinds()) // plan.pp, 1) if kv.tier_loading == "layers" else 1)
    return Memory(
        tuple(plans), tuple(layers), pool, d.fleet(1).block, lending, tuple(similar),
        tuple(p.spec.kv.tier_prefetch for p in d.pools), d.limits.seed,
    )  # fmt: skip


def _lending(d: Deployment) -> Lending | None:
    p = d.pools[0]
    if not p.spec.kv.lending:
        return None
    model, plan, cluster = d.model, p.spec.plan, p.cluster
    heads, size = model.num_attention_heads / plan.tp, float(model.attention_head_dim)
    if model.is_mla:
        size = float((model.kv_lora_rank or 0) + (model.qk_rope_head_dim or 0))  # queries are absorbed
    moved = heads * (size * QUERY_BYTES + size * PARTIAL_BYTES + 2.0 * PARTIAL_BYTES)
    inside = cluster.scale_up.latency_s, cluster.scale_up.bytes_per_s
    outside = cluster.scale_out.latency_s, cluster.nic_bytes_per_s_per_device
    nodes = tuple(i * plan.num_devices // cluster.devices_per_node for i in range(p.lanes))
    return Lending(Exchange(len(model.layer_kinds()), moved, inside, outside, nodes), p.spec.kv.lending_kept)


def _similar(p: Pool) -> SimilarPlan | None:
    own = p.spec.kv.similar
    if own is None:
        return None
    kind, devices = TIERS.get("host"), p.spec.plan.tp * p.spec.plan.pp
    size = p.instance.capacity.bytes_per_token * p.limits.block * devices
    block_s, latency_s = size / kind.bytes_per_s(p.cluster, devices), kind.latency_s(p.cluster)
    tokens = int(own.capacity_bytes / size) * p.limits.block
    return SimilarPlan(own.share, own.matched, own.recomputed, tokens, block_s, latency_s)
