"""Candidates whose step is the same program: one simulation gives the step time of all of them.

Two switches often change nothing that runs. ZeRO-2 without a pipeline reduces after every micro-batch; else it moves
what ZeRO-1 moves and only keeps less. An order of mesh axes matters through distances between ranks, and beyond a
scale-up domain all distances are alike. Memory is never taken from another candidate.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from windtunnel.planner.bounds.cost_sharing_keys import stride_of
from windtunnel.planner.case import Case
from windtunnel.planner.space.candidates import Candidates
from windtunnel.planner.space.technique_rewrites import rewriting
from windtunnel.specs.cluster import ClusterSpec


def program_key(case: Case, x: Candidates, layout: int, policy: int) -> Hashable:
    """A key that candidates with the same step program have in common."""
    q = x.policies[policy]
    cluster = case.cluster
    if q.is_open or type(cluster) is not ClusterSpec or rewriting(case.techniques):
        return layout, policy
    every = x.pp[layout] == 1 and x.m[layout] > 1 and case.training.gradient_accumulation_sync
    zero = 1 if q.zero == 2 and not every else q.zero
    return (
        layout,
        q.schedule,
        q.recompute,
        zero,
        q.shard_group,
        q.sp,
        q.cp_kind,
        q.cp_all_to_all,
        q.offload,
        q.overlap,
        q.stage_layers,
        q.reshard_after_forward,
        _laid(case, x, layout, q.order),
    )


def _laid(case: Case, x: Candidates, layout: int, order: tuple[str, ...]) -> Hashable:
    """Distances between neighbours along each axis, as far as they matter; the order itself where they may always."""
    cluster = case.cluster
    domain = cluster.scale_up_domain
    if cluster.scale_out.oversubscription > 1 or cluster.scale_out.fabric or cluster.scale_up.topology == "torus":
        return order
    one = np.array([layout])
    out = []
    for name in ("tp", "cp", "dp", "pp"):
        size, stride = int(getattr(x, name)[layout]), int(stride_of(x, order, name, one)[0])
        for reach in (stride, stride * size):
            if reach % domain and domain % reach:  # counted rank by rank
                return order
        out.append(min(stride, domain) if size > 1 else 0)
    return tuple(out)
