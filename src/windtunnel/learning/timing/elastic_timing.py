"""Rounds of workers that fail and join as the clock of a lock-step algorithm: seconds, bytes and joules by step."""

from __future__ import annotations

import numpy as np

from windtunnel.learning.timing.elastic_rounds import ElasticRounds
from windtunnel.learning.timing.lock_step import LockStepTiming, time_lock_step
from windtunnel.learning.timing.schedule import Messages
from windtunnel.learning.timing.target import Target


def elastic_timing(
    rounds: ElasticRounds, messages: Messages, target: Target, steps: int, *, seed: int = 1
) -> LockStepTiming:
    """When steps of rounds begin, and what the survivors of each round have sent.

    Bytes of exchanges that were given up are not counted. Who is away counts as idle.

    Args:
        rounds: As they went: one for every `steps_of_round` steps, the last one may be cut short.
        messages: What the algorithm sends.
        target: Step, link and power of a worker.
        steps: Local steps of a worker.
        seed: Of drawn latencies.
    """
    period, workers = rounds.steps_of_round, rounds.workers
    at = np.arange(steps)
    time_s = np.empty(steps + 1)
    time_s[:-1] = rounds.begin_s[at // period] + rounds.step_s * (at % period)
    left = steps % period
    time_s[-1] = rounds.begin_s[-1] + rounds.step_s * left if left else rounds.end_s[-1]
    whole = steps // period
    counts = np.bincount([len(who) for who in rounds.survived[:whole]], minlength=workers + 1)
    sent = np.zeros(workers + 1)
    links: dict[str, float] = {}
    for n in np.flatnonzero(counts):
        if n < 2:
            continue
        one = time_lock_step(messages, target, int(n), period, seed=seed)
        sent[n] = float(one.worker_bytes[-1]) * n / workers
        for name, nbytes in one.link_bytes.items():
            links[name] = links.get(name, 0.0) + nbytes * float(counts[n])
    by_round = np.concatenate([[0.0], np.cumsum([sent[len(who)] for who in rounds.survived[:whole]])])
    computed = rounds.computed_s * (steps / (period * len(rounds.survived)))
    total = float(time_s[-1])
    utilisation = float(computed.mean()) / total if total else 1.0
    link = target.link
    return LockStepTiming(
        time_s=time_s,
        worker_bytes=by_round[np.arange(steps + 1) // period],
        link_bytes=links,
        compute_s=computed,
        utilisation=utilisation,
        steady_utilisation=utilisation,
        simulated_steps=steps,
        step_watts=target.step_watts,
        idle_watts=target.idle_watts,
        joules_per_byte=0.0 if link is None else link.joules_per_byte,
        price_per_hour=target.price_per_hour,
    )
