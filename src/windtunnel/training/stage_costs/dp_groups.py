"""Ranks that hold the same parameters and reduce their gradients together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from windtunnel.network.groups import GroupPlacement, Mesh
from windtunnel.parallel.resolve import ResolvedPlan


def replicas_of(mesh: Mesh, plan: ResolvedPlan) -> GroupPlacement:
    """Ranks that hold the same parameters: data and context parallel ones, of every copy that a pipeline holds.

    The other copy of a part sits at the mirrored stage; where stages are further apart than a scale-up domain, so are
    the two halves of the group.
    """
    place = mesh.placement("cp", "dp")
    if plan.copies == 1:
        return place
    if mesh.strides["pp"] * plan.pp <= mesh.domain:
        inside = place.ranks_per_domain * plan.copies
        return replace(
            place,
            size=place.size * plan.copies,
            ranks_per_domain=inside,
            groups_per_domain=np.maximum(place.groups_per_domain / plan.copies, 1.0),
        )
    return replace(place, size=place.size * plan.copies, num_domains=place.num_domains * plan.copies)
