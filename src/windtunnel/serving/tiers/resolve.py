"""`kv.tiers` of pools → levels of the instances of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.errors import BadInput, ProblemList
from windtunnel.serving.tiers.kinds import TIERS
from windtunnel.serving.tiers.memory import LevelPlan, Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.serving.deployment import Deployment
    from windtunnel.specs.serving import KvSpec


def check_tiers(kv: KvSpec, where: str, *, caching: bool, problems: ProblemList) -> None:
    """Problems of a pool's levels."""
    if not kv.tiers:
        return
    if not caching:
        problems.add(f"{where}.prefix_caching", False, "must be true with kv.tiers: they keep what is found again")
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


def memory_of(d: Deployment, pool: Sequence[int]) -> Memory | None:
    """Levels of a deployment; None where no pool has any.

    Args:
        d: what serves.
        pool: of each instance of the loop.
    """
    if not any(p.spec.kv.tiers for p in d.pools):
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
    return Memory(tuple(plans), tuple(layers), pool, d.fleet(1).block)
