"""AntMan (OSDI 2020): guaranteed jobs own their devices, opportunistic ones run in what their stages leave idle.

As in the simulation of Muri's authors: a job never moves and is never stopped; guaranteed jobs hold what they find
until they have all (of one node where one is enough); a device has at most one job of each class. An opportunistic job
uses every idle second of a resource, or, with `whole_iterations`, a whole number of the owner's iterations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windtunnel.clusters.jobs import Jobs
from windtunnel.clusters.sharing_policies._stages import Stages, in_gaps_s, in_whole_iterations_s, stages_of
from windtunnel.clusters.sharing_policies.base import SHARING_POLICIES, Decide, Floor, Placed, Present, SharingPolicy
from windtunnel.errors import BadInput, Problem

Device = tuple[int, int]
"""Node, and device of it."""


@dataclass(slots=True)
class _Owners:
    """Who is on which device."""

    guaranteed: dict[Device, int] = field(default_factory=dict)
    opportunistic: dict[Device, int] = field(default_factory=dict)
    holds: dict[int, list[Device]] = field(default_factory=dict)

    def forget(self, present: set[int]) -> None:
        """Free the devices of jobs that have ended."""
        for number in [number for number in self.holds if number not in present]:
            for device in self.holds.pop(number):
                for owners in (self.guaranteed, self.opportunistic):
                    if owners.get(device) == number:
                        del owners[device]

    def free(self, node: int, size: int) -> list[Device]:
        """Devices of a node without a guaranteed job."""
        return [(node, i) for i in range(size) if (node, i) not in self.guaranteed]

    def reserve(self, job: Present, capacity: tuple[int, ...]) -> None:
        """Give a guaranteed job what is free of its nodes, or choose them."""
        held = self.holds.setdefault(job.number, [])
        nodes = list(dict.fromkeys(node for node, _ in held))
        for _ in range(len(capacity)):
            missing = job.devices - len(held)
            if missing <= 0:
                return
            own = [device for node in nodes for device in self.free(node, capacity[node])][:missing]
            for device in own:
                self.guaranteed[device] = job.number
            held.extend(own)
            if len(own) == missing or len(nodes) * max(capacity) >= job.devices:
                return
            others = [n for n in range(len(capacity)) if n not in nodes]
            room = {n: len(self.free(n, capacity[n])) for n in others}
            whole = [n for n in others if room[n] >= min(missing - len(own), capacity[n])]
            best = whole[0] if whole else max(others, key=lambda n: room[n])
            if room[best] == 0:
                return
            nodes.append(best)


def _prepare(jobs: Jobs, knobs: Mapping[str, Any], seed: int) -> Decide:
    stages = stages_of(jobs, "antman")
    drawn = np.random.default_rng([seed, 17]).random(len(jobs)) < knobs["opportunistic_share"]
    extra = (drawn if jobs.opportunistic is None else jobs.opportunistic > 0).tolist()
    owners = _Owners()
    pace = in_whole_iterations_s if knobs["whole_iterations"] else in_gaps_s
    if knobs["whole_iterations"] and any(len(one.seconds) != 3 for one in stages):
        raise BadInput(Problem("jobs.policy.antman.whole_iterations", "needs a trace with three stages an iteration"))

    def decide(floor: Floor) -> dict[int, Placed]:
        owners.forget({job.number for job in floor.jobs})
        waiting = [job for job in floor.jobs if job.on is None]
        for job in waiting:
            if not extra[job.number] and len(owners.guaranteed) < floor.devices:
                owners.reserve(job, floor.capacity)
        able = _able(owners, floor.capacity)
        for job in waiting:
            if extra[job.number] and job.devices <= len(able):
                able = _squeeze_in(job, owners, able)
        complete = {job.number for job in floor.jobs if len(owners.holds.get(job.number, ())) == job.devices}
        out = {}
        for number in complete:
            held = owners.holds[number]
            nodes = tuple(Counter(node for node, _ in held).items())
            partners = {owners.guaranteed.get(device) for device in held} & complete if extra[number] else set()
            speed = _speed(stages[number], [stages[one] for one in partners if one is not None], pace)
            shared = owners.opportunistic if not extra[number] else owners.guaranteed
            both = sum(1 for device in held if shared.get(device) in complete)
            out[number] = Placed(nodes=nodes, speed=speed, share=1 - 0.5 * both / len(held))
        return out

    return decide


def _able(owners: _Owners, capacity: tuple[int, ...]) -> list[Device]:
    """Devices without an opportunistic job, those without any job first."""
    able = [(n, i) for n, size in enumerate(capacity) for i in range(size) if (n, i) not in owners.opportunistic]
    return sorted(able, key=lambda device: device in owners.guaranteed)


def _squeeze_in(job: Present, owners: _Owners, able: list[Device]) -> list[Device]:
    """Give an opportunistic job the first devices; those that are left."""
    owners.holds[job.number] = able[: job.devices]
    for device in able[: job.devices]:
        owners.opportunistic[device] = job.number
    return able[job.devices :]


def _speed(own: Stages, partners: list[Stages], pace: Callable[[Stages, Stages], float]) -> float:
    """Of an opportunistic job: its slowest device counts, since its devices wait for each other."""
    return min((own.alone_s / max(pace(own, one), own.alone_s) for one in partners), default=1.0)


SHARING_POLICIES.add(
    "antman",
    SharingPolicy(
        name="AntMan (opportunistic jobs in the gaps of guaranteed ones)",
        source="Xiao et al., OSDI 2020; rules of placement as in Muri's simulator",
        prepare=_prepare,
        knobs={"opportunistic_share": 0.5, "whole_iterations": False},
    ),
)
