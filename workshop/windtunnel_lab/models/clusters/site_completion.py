"""Where a data-intensive job ends first: completion times predicted for each candidate site from links and load.

A job reads its data from the sites that hold it, then computes and exchanges intermediate data with its workers' sites.
Transfers share wide-area links with each other and with background flows (max-min rates, `engine.flows`), computation
takes longer where processors are busy. What a scheduler sees are measured rates, round trips and loads, with noise.

Source: Timilsina and Shannigrahi, Learning to Schedule, 2025, arXiv 2510.21419: telemetry of all nodes → predicted
duration of each candidate → the best; the default scheduler looks at free processors and memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.engine.flows import simulate_flows

MOST_BYTES_IN_FLIGHT = 4e6
"""Window of a TCP connection: its rate is at most this over the round trip."""
SHUFFLES = 10.0
"""Round trips that a gigabyte of shuffled data waits for next to its bytes (fetches of blocks in turn)."""


@dataclass(frozen=True, slots=True)
class Sites:
    """Sites and what lies between them at one time."""

    link_bytes_per_s: Floats
    """Of each site's port, shape (sites,)."""
    round_trip_s: Floats
    """Shape (sites, sites)."""
    load: Floats
    """Busy share of processors, shape (sites,)."""
    background: Ints
    """Flows of others, (from, to), shape (flows, 2)."""


@dataclass(frozen=True, slots=True)
class DataJob:
    """One job."""

    input_bytes: float
    shuffle_bytes: float
    cpu_s: float
    """Seconds of its processors on an idle site."""
    data: Ints
    """Sites that hold its input."""
    workers: Ints
    """Sites of its executors; the driver's site is what is chosen."""


def generated(rng: np.random.Generator, sites: int) -> tuple[Sites, DataJob]:
    """A random state and a random job."""
    trip = rng.uniform(0.002, 0.08, (sites, sites))
    trip = 0.5 * (trip + trip.T)
    np.fill_diagonal(trip, 0.0002)
    flows = rng.integers(0, sites, (int(rng.integers(0, 3 * sites)), 2))
    flows = flows[flows[:, 0] != flows[:, 1]]
    state = Sites(rng.choice([1.25e8, 3e8, 1.25e9], sites), trip, rng.beta(2, 3, sites), flows)
    size = float(np.exp(rng.uniform(np.log(2e8), np.log(8e9))))
    job = DataJob(
        size,
        size * float(rng.uniform(0.1, 1.5)),
        float(rng.uniform(2.0, 40.0)),
        rng.choice(sites, 2, replace=False),
        rng.choice(sites, 2, replace=False),
    )
    return state, job


def completion_s(state: Sites, job: DataJob, site: int) -> float:
    """Seconds of a job whose driver runs at a site: input, computation, shuffle."""
    read = _transfer_s(state, [(int(d), site) for d in job.data], job.input_bytes / len(job.data))
    compute = job.cpu_s / max(1.0 - float(state.load[site]), 0.05)
    pairs = [(int(w), site) for w in job.workers] + [(site, int(w)) for w in job.workers]
    shuffle = _transfer_s(state, pairs, job.shuffle_bytes / len(pairs))
    return read + compute + shuffle


def _transfer_s(state: Sites, pairs: list[tuple[int, int]], nbytes: float) -> float:
    """Until the last of some transfers has ended, next to flows of others that do not end."""
    n = len(state.link_bytes_per_s)
    apart = [(a, b) for a, b in pairs if a != b]
    if not apart:
        return 0.0
    every = [*apart, *((int(a), int(b)) for a, b in state.background)]
    # ports out, ports in, and the window of each own connection as a link of its own
    window = [MOST_BYTES_IN_FLIGHT / state.round_trip_s[a, b] for a, b in apart]
    capacity = np.concatenate([state.link_bytes_per_s, state.link_bytes_per_s, window])
    own = [2 * n + i if i < len(apart) else -1 for i in range(len(every))]
    routes = np.array([[a, n + b, w] for (a, b), w in zip(every, own, strict=True)])
    size = np.where(np.arange(len(every)) < len(apart), nbytes, 1e15)
    ended = simulate_flows(routes, capacity, size).end_s[: len(apart)]
    waits = max(SHUFFLES * nbytes / 1e9 * float(state.round_trip_s[a, b]) for a, b in apart)
    return float(ended.max()) + waits


def telemetry(state: Sites, job: DataJob, site: int, rng: np.random.Generator, noise: float = 0.1) -> Floats:
    """What a scheduler sees of a candidate, shape (features,): job, load, rates and round trips, with noise."""
    n = len(state.link_bytes_per_s)
    out = np.bincount(state.background[:, 0], minlength=n) if len(state.background) else np.zeros(n)
    into = np.bincount(state.background[:, 1], minlength=n) if len(state.background) else np.zeros(n)
    free_in = state.link_bytes_per_s[site] / (1.0 + into[site])
    free_out = state.link_bytes_per_s[site] / (1.0 + out[site])
    from_data = min(state.link_bytes_per_s[d] / (1.0 + out[d]) for d in job.data)
    from_work = min(state.link_bytes_per_s[w] / (1.0 + out[w]) for w in job.workers)
    away = sum(int(d) != site for d in job.data)
    rates = np.array([free_in, free_out, from_data, from_work]) * np.exp(noise * rng.standard_normal(4))
    trips = [max(state.round_trip_s[d, site] for d in job.data), max(state.round_trip_s[w, site] for w in job.workers)]
    load = float(np.clip(state.load[site] + 0.5 * noise * rng.standard_normal(), 0.0, 0.95))
    reads = away * job.input_bytes / len(job.data) / min(rates[0], rates[2])
    shuffles = job.shuffle_bytes / min(rates[0], rates[1], rates[3])
    work = job.cpu_s / (1.0 - load)
    return np.array([*np.log(rates), *trips, load, work, reads, shuffles, np.log(job.input_bytes), away])


LOAD = 6
"""Which feature is the load: all that the default scheduler looks at."""
