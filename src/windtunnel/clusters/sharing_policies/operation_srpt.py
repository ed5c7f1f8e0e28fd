"""Shortest remaining operation first: jobs are chains of operations, and the size of each is known when it begins.

Nothing is known of a job but the operation that it is at; with one operation a job this is SRTF.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.sharing_policies.base import (
    SHARING_POLICIES,
    Decide,
    Floor,
    Placed,
    SharingPolicy,
    consolidated,
    take,
)
from windtunnel.systems import card

_DONE = 1e-9
"""Share of a job's work by which the end of an operation may be missed in floating point."""


def _prepare(jobs: Jobs, knobs: Mapping[str, Any], seed: int) -> Decide:
    chains = jobs.operations or tuple((float(work),) for work in jobs.work_s)
    # work left at the end of each operation, first to last
    ends = [list(accumulate(reversed(chain[1:]), initial=0.0))[::-1] for chain in chains]

    def end_of(number: int, left_s: float) -> float:
        """Work left when the operation that the job is at ends."""
        reached = left_s - _DONE * sum(chains[number])
        return next((end for end in ends[number] if end < reached), 0.0)

    def decide(floor: Floor) -> dict[int, Placed]:
        until = {job.number: end_of(job.number, job.left_s) for job in floor.jobs}
        room, out = list(floor.capacity), dict[int, Placed]()
        for job in sorted(floor.jobs, key=lambda one: one.left_s - until[one.number]):
            stays = job.on is not None and all(room[node] >= uses for node, uses in job.on.nodes)
            nodes = job.on.nodes if job.on is not None and stays else consolidated(job.devices, room, floor.capacity)
            if nodes:
                take(room, nodes)
                out[job.number] = Placed(nodes, look_at_s=until[job.number])
        return out

    return decide


SHARING_POLICIES.add(
    "operation-srpt",
    SharingPolicy(
        name="Shortest remaining operation first",
        source=f"Lindermayr et al., {card('gradual-jobs-flowtime').title}, arXiv 2602.12716 (2026)",
        prepare=_prepare,
    ),
)
