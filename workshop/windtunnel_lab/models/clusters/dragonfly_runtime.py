"""Run times of jobs that share a dragonfly, and a surrogate that reads them from the counters of router ports.

Jobs sit on sets of devices and repeat exchanges (a neighbour ring, all-to-all pairs, random pairs). Their flows share
links (max-min rates, `engine.flows`) on minimal or adaptive routes; an iteration ends with its last flow. The surrogate
sees what ports count, not who sent it: bytes on the job's own routers, on local links and on global links, as seconds
at capacity, mean and fullest.

Source: Wang et al., SMART, AAAI 2026, arXiv 2511.11111: port counters of routers → time of the next iteration; a graph
network and a language model there, boosted trees here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.engine.flows import simulate_flows
from windtunnel.network.topology import Dragonfly
from windtunnel_lab.models.network.adaptive import adaptive_routes

Pattern = Literal["ring", "pairs", "random"]
Placement = Literal["contiguous", "groups", "random"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkJob:
    """One job of a mix."""

    devices: Ints
    pattern: Pattern
    nbytes: float
    """Of one message."""


def placed(topology: Dragonfly, sizes: list[int], placement: Placement, rng: np.random.Generator) -> list[Ints]:
    """Devices of jobs of these sizes: in order, dealt router by router over the groups, or at random."""
    n = topology.num_devices
    order: Ints = np.arange(n)
    if placement == "random":
        order = rng.permutation(n)
    elif placement == "groups":
        per_group = topology.routers * topology.hosts
        by_router = np.arange(n).reshape(topology.groups, per_group // topology.hosts, topology.hosts)
        order = by_router.transpose(1, 0, 2).ravel()
    ends = np.cumsum(sizes)
    return [
        np.sort(order[end - size : end]) if placement != "random" else order[end - size : end]
        for size, end in zip(sizes, ends, strict=True)
    ]


def flows_of(job: NetworkJob, rng: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """(senders, receivers, bytes) of one iteration."""
    d = job.devices
    if job.pattern == "ring":
        return d, np.roll(d, -1), np.full(len(d), job.nbytes)
    if job.pattern == "pairs":
        shifts = np.unique(np.geomspace(1, len(d) - 1, 6).astype(np.int64))
        to = [np.roll(d, -int(s)) for s in shifts]
        return np.tile(d, len(to)), np.concatenate(to), np.full(len(d) * len(to), job.nbytes / len(to))
    mixed = rng.permutation(d)
    keep = np.asarray(mixed != d)
    return d[keep], mixed[keep], np.full(int(keep.sum()), job.nbytes)


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of a mix of jobs."""

    seconds: Floats
    """Of each job, shape (jobs,)."""
    alone_s: Floats
    """Of each job with the network to itself."""
    counters: Floats
    """What ports counted, per job, shape (jobs, features)."""


FEATURES = 9


def simulate(topology: Dragonfly, jobs: list[NetworkJob], *, adaptive: bool, seed: int) -> Iteration:
    """Simulate one iteration of all jobs together and of each alone.

    Args:
        topology: network.
        jobs: on disjoint devices.
        adaptive: UGAL routes; else minimal ones.
        seed: of random pairs and of the groups that adaptive flows look at.
    """
    rng = np.random.default_rng(seed)
    parts = [flows_of(job, rng) for job in jobs]
    owner = np.repeat(np.arange(len(jobs)), [len(p[0]) for p in parts])
    src, dst, nbytes = (np.concatenate([p[i] for p in parts]) for i in range(3))

    def routed(who: Ints) -> Ints:
        if adaptive:
            return adaptive_routes(topology, src[who], dst[who], nbytes[who], seed)
        return topology.routes(src[who], dst[who])

    every = np.arange(len(src))
    routes = routed(every)
    end = simulate_flows(routes, topology.capacity, nbytes).end_s
    seconds = np.array([end[owner == j].max() for j in range(len(jobs))])
    alone = np.empty(len(jobs))
    for j in range(len(jobs)):
        own = every[owner == j]
        alone[j] = simulate_flows(routed(own), topology.capacity, nbytes[own]).makespan_s
    return Iteration(seconds, alone, _counters(topology, jobs, routes, nbytes, owner))


def _counters(topology: Dragonfly, jobs: list[NetworkJob], routes: Ints, nbytes: Floats, owner: Ints) -> Floats:
    """Seconds at capacity that ports were asked for, by job: see the module's head."""
    n, r, g = topology.num_devices, topology.routers, topology.groups
    load = np.zeros(len(topology.capacity))
    for column in routes.T:
        used = column >= 0
        np.add.at(load, column[used], nbytes[used])
    busy = load / topology.capacity
    local = busy[2 * n : 2 * n + g * r * r].reshape(g, r, r)
    wide = busy[2 * n + g * r * r :].reshape(g, g)
    rows = []
    for j, job in enumerate(jobs):
        routers = np.unique(job.devices // topology.hosts)
        groups = np.unique(routers // r)
        near = local[routers // r, routers % r]
        out = wide[groups]
        own = nbytes[owner == j].sum() / len(job.devices) / topology.host_bytes_per_s
        into = busy[n + job.devices]
        rows.append(
            [
                own,
                into.max(),
                near.mean(),
                near.max(),
                out.mean(),
                out.max(),
                wide[:, groups].max(),
                len(groups),
                wide.max(),
            ]
        )
    return np.array(rows, float)
