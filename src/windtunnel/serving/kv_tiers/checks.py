"""What `kv.tiers`, `kv.similar` and `kv.lending` do not go with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.errors import BadInput, ProblemList
from windtunnel.serving.kv_tiers.kinds import TIERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.serving import KvSpec, PoolSpec, ServingSpec


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


def check_host_room(
    serving: ServingSpec, groups: Sequence[int], parts: Sequence[ClusterSpec], problems: ProblemList
) -> None:
    """Whether the nodes of each group have the host memory that levels of its instances take.

    Args:
        serving: with as many instances as there may ever be.
        groups: of the cluster, by pool.
        parts: the groups.
        problems: to add to.
    """
    for g, part in enumerate(parts):
        worst, field, words = 0.0, "", ""
        for i, pool in enumerate(serving.pools):
            each = {
                f"kv.tiers[{k}].capacity_bytes": t.capacity_bytes
                for k, t in enumerate(pool.kv.tiers)
                if t.kind == "host"
            }
            each["kv.swap_space_bytes"] = pool.kv.swap_space_bytes
            total = sum(each.values())
            if groups[i] != g or total <= 0.0:
                continue
            devices = pool.plan.num_devices
            beside = min(max(part.devices_per_node // devices, 1), pool.replicas)
            nodes = max(-(-devices // part.devices_per_node), 1)
            worst += total * beside / nodes
            largest = max(each, key=lambda name: each[name])
            field = field or f"serving.pools[{i}].{largest}"
            over = f" over {nodes} nodes" if nodes > 1 else ""
            words += f"{' and ' if words else ''}{beside} of {total / 1e9:,.4g} GB{over}"
        if worst > part.host_memory_bytes:
            rule = (
                f"takes {worst / 1e9:,.4g} GB of a node's host memory ({words}): must not exceed its host_memory_bytes "
                f"{part.host_memory_bytes / 1e9:,.4g} GB"
            )
            problems.add(field, f"{worst / 1e9:,.4g} GB", rule)


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
