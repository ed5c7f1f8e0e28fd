"""The request loop against a model written on its own: one token at a time, blocks as lists, nothing counted ahead."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from windtunnel.serving.event_loop import run as loop
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.requests import DONE, Requests

LINEAR = 0.004 + np.arange(4000) * 2e-5


@dataclass(eq=False, kw_only=True)
class Job:
    """A request: how many tokens are in the cache, and how many have to be before it answers on."""

    at: float
    prompt: int
    answer: int
    said: int = 0
    stored: int = 0
    goal: int = 0
    pages: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    taken_out: int = 0

    def __post_init__(self) -> None:
        self.goal = self.prompt


def token_by_token(jobs: list[Job], limits: Limits) -> None:
    """Mixed batches of decodes and prompt chunks, first come first served; the newest is computed again."""
    free = list(range(limits.blocks))
    coming, line, batch = sorted(jobs, key=lambda j: j.at), [], []
    now = 0.0

    def hold(job: Job, tokens: int) -> bool:
        while len(job.pages) * limits.block < tokens:
            if not free:
                return False
            job.pages.append(free.pop())
        return True

    def drop(job: Job) -> None:
        free.extend(job.pages)
        job.pages = []
        batch.remove(job)

    while coming or line or batch:
        while coming and coming[0].at <= now:
            line.append(coming.pop(0))
        if not line and not batch:
            now = coming[0].at
            continue
        pushed_out = False
        speaking = [j for j in batch if j.stored >= j.goal]
        for job in list(speaking):
            while job in batch and not hold(job, job.stored + 1):
                last = batch[-1]
                drop(last)
                last.goal, last.stored, last.taken_out = last.prompt + last.said, 0, last.taken_out + 1
                line.insert(0, last)
                pushed_out = True
        speaking = [j for j in speaking if j in batch]
        budget = limits.budget - len(speaking)
        work: list[tuple[Job, int]] = []
        for job in batch:
            if job not in speaking and budget > 0:
                work.append((job, min(job.goal - job.stored, budget)))
                budget -= work[-1][1]
        while line and budget > 0 and not pushed_out and len(batch) < limits.max_seqs:
            job = line[0]
            need = -(-job.goal // limits.block)
            if len(free) < need + (limits.watermark if batch else 0):
                break
            batch.append(line.pop(0))
            hold(job, job.goal)
            work.append((job, min(job.goal, budget)))
            budget -= work[-1][1]
        seconds = LINEAR[sum(c for _, c in work) + len(speaking)] + limits.per_sequence_s * (len(work) + len(speaking))
        seconds += limits.kv_s * sum(j.stored + 1 for j in speaking)
        if work:
            seconds += limits.pair_s * sum(sum(j.stored + i + 0.5 for i in range(c)) for j, c in work)
            seconds = max(seconds, limits.prompt_floor_s)
        now += seconds
        for job in speaking:
            job.stored += 1
            job.said += 1
            job.times.append(now)
        for job, count in work:
            job.stored += count
            if job.stored == job.goal:
                job.said += 1
                job.times.append(now)
        for job in [j for j in batch if j.said == j.answer]:
            drop(job)


@pytest.mark.parametrize("seed", range(25))
def test_the_loop_is_a_model_of_every_token(seed: int) -> None:
    g = np.random.default_rng(seed)
    n = 30
    inputs, outputs = g.integers(1, 300, n).astype(np.int32), g.integers(1, 80, n).astype(np.int32)
    arrival = np.cumsum(g.exponential(float(g.choice([0.01, 0.1])), n))
    limits = Limits(
        pair_s=1e-8,
        kv_s=1e-7,
        per_sequence_s=1e-5,
        prompt_floor_s=float(g.choice([1e-4, 3e-3, 3e-2])),
        budget=int(g.choice([64, 256, 1024])),
        max_seqs=int(g.choice([4, 64])),
        block=int(g.choice([1, 16])),
        blocks=10**5,
        watermark=int(g.integers(0, 3)),
    )
    if seed % 2:
        limits = Limits(**{**{f: getattr(limits, f) for f in limits.__slots__}, "blocks": 640 // limits.block})
    requests = Requests(arrival_s=arrival.copy(), input_tokens=inputs, output_tokens=outputs)
    outcome = loop.serve(requests, LINEAR, limits, 1)
    jobs = [Job(at=float(arrival[i]), prompt=int(inputs[i]), answer=int(outputs[i])) for i in range(n)]
    token_by_token(jobs, limits)
    assert (requests.state == DONE).all()
    np.testing.assert_allclose(requests.first_token_s, [j.times[0] for j in jobs], rtol=1e-9)
    np.testing.assert_allclose(requests.finish_s, [j.times[-1] for j in jobs], rtol=1e-9)
    assert requests.preemptions.tolist() == [j.taken_out for j in jobs]
    if seed % 2 and limits.max_seqs == 64:
        assert outcome.totals["preemptions"].sum() > 0
