"""A resolved scenario with `sm_split` → how each instance runs prompts and answers side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

from windtunnel.serving.event_loop.twin.sm_shares import SmShares
from windtunnel.serving.iteration.linear_layers import Layers
from windtunnel.serving.iteration.sm_share import SmShare, on_sm_share

if TYPE_CHECKING:
    from windtunnel.serving.deployment import Deployment, Pool
    from windtunnel.serving.event_loop.fleet import Fleet
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.kv_memory import Memory


def shares_of(
    deployments: Sequence[Deployment], fleet: Fleet, memory: Memory | None
) -> Callable[[Instance], SmShares | None] | None:
    """Shares of the SMs of each instance of the loop; None where no pool has any.

    Args:
        deployments: what serves, in the order of the fleet's pools.
        fleet: of the run.
        memory: KV tiers of the run.
    """
    pools = [(d.serving.slo, p.spec.sm_split, cache(_priced(d, p))) for d in deployments for p in d.pools]
    if all(spec is None for _, spec, _ in pools):
        return None
    none = float("inf")

    def execution(one: Instance) -> SmShares | None:
        slo, spec, priced = pools[int(fleet.pool[one.index])]
        return SmShares(spec, priced, (slo.ttft_s or none, slo.tpot_s or none), memory) if spec else None

    return execution


def _priced(d: Deployment, pool: Pool) -> Callable[[float], SmShare]:
    def priced(share: float) -> SmShare:
        c = pool.iteration.coefficients
        return on_sm_share(
            Layers(d.model, pool.cluster, pool.instance.shape, c, d.serving.expert_skew), pool.iteration, share
        )

    return priced
