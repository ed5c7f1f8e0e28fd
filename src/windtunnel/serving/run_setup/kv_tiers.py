"""`kv.tiers` of pools → levels of the instances of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.serving.kv_tiers.approximate_reuse import SimilarPlan
from windtunnel.serving.kv_tiers.kinds import TIERS
from windtunnel.serving.kv_tiers.lending import PARTIAL_BYTES, Exchange, Lending
from windtunnel.serving.kv_tiers.twin_memory import LevelPlan, Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.serving.deployment import Deployment, Pool

QUERY_BYTES = 2.0
"""Bytes of one element of a query: 16 bits."""


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
        plans=tuple(plans),
        layers=tuple(layers),
        pool=pool,
        block_tokens=d.fleet(1).block,
        lending=lending,
        similar=tuple(similar),
        prefetch=tuple(p.spec.kv.tier_prefetch for p in d.pools),
        seed=d.limits.seed,
    )


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
