"""`serving.traffic` as requests: drawn from distributions, or read from a trace."""

from __future__ import annotations

from pathlib import Path

from windtunnel.errors import BadInput, Problem
from windtunnel.serving.traffic import agents, tenants, trajectories
from windtunnel.serving.traffic.replay import replay
from windtunnel.serving.traffic.single_source import FIELD, Traffic, drawn_alone
from windtunnel.specs.traffic import TrafficSpec


def generate(spec: TrafficSpec, seed: int | None = None, folder: Path | None = None) -> Traffic:
    """All requests of a traffic: a function of specification, seed and trace alone.

    Closed loops leave `arrival_s` nan: the loop sends `concurrency` requests at 0 and the next as each ends. Turns
    that follow another have nan as well, and `follow` and `delay_s` of the turn before.

    Args:
        spec: `serving.traffic`.
        seed: absent: the specification's.
        folder: that a trace's path is relative to.

    Raises:
        BadInput: a trace cannot be read, or nothing would be sent.
    """
    seed = spec.seed if seed is None else seed
    if spec.trace is not None:
        traffic = replay(spec, seed, folder)
    elif spec.trajectories is not None:
        requests, assumed = trajectories.draw(spec, seed)
        traffic = Traffic(requests, spec, spec.concurrency or 0, spec.warmup_requests, assumed)
    elif spec.agents:
        requests, assumed = agents.draw(spec, seed)
        traffic = Traffic(requests, spec, spec.concurrency or 0, spec.warmup_requests, assumed)
    elif spec.tenants:
        requests, assumed = tenants.draw(spec, seed)
        traffic = Traffic(requests, spec, spec.concurrency or 0, spec.warmup_requests, assumed)
    else:
        traffic = drawn_alone(spec, seed)
    if spec.priorities:
        own = tenants.classes(spec.priorities, traffic.requests.group, seed)
        traffic.requests.priority = own
    count = len(traffic.requests)
    if count == 0:
        raise BadInput(Problem(f"{FIELD}.duration_s", "is too short: no request arrives in it", spec.duration_s))
    if spec.warmup_requests >= count:
        rule = f"must be below the number of requests, {count}"
        raise BadInput(Problem(f"{FIELD}.warmup_requests", rule, spec.warmup_requests))
    return traffic
