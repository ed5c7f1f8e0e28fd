"""Iterations of many deployments on shared devices: of those with something to do, the one whose token is due first.

One iteration is a whole prompt of one request, or a decode step of all requests of one deployment. A device that has
nothing else to do takes several decode steps at once.

Source: Xu et al. 2025, LLM-Mesh, sections 4 to 6: turns token by token, by slack; placements that are checked against
objectives; deployments packed so that room stays together.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence

from windtunnel.progress import counting
from windtunnel.serving.multi_model.placement import make_room, place, remove
from windtunnel.serving.multi_model.state import Deployed, Device, Job, Rules

ARRIVE, FREE, READY = 0, 1, 2
Note = Callable[[Device, float, int, int, list[float], float], None]
"""Called after an iteration with its device, seconds, prompt tokens, decode steps, time between tokens by request, and
cached tokens read."""


class Loop:
    """One run."""

    def __init__(self, jobs: Sequence[Job], devices: Sequence[Device], rules: Rules, note: Note) -> None:
        self.jobs, self.devices, self.rules, self.note = jobs, devices, rules, note
        self.events: list[tuple[float, int, int]] = [(j.arrival, ARRIVE, k) for k, j in enumerate(jobs)]
        heapq.heapify(self.events)
        self.line: deque[Job] = deque()
        self.ended: list[Job] = []
        self.started: dict[int, float] = {}
        self.where: dict[int, int] = {}
        self.refused: list[Job] = []

    def run(self) -> None:
        """All requests, served."""
        with counting("requests", lambda: (len(self.ended) + len(self.refused), len(self.jobs))):
            while self.events:
                now, kind, k = heapq.heappop(self.events)
                if kind == ARRIVE:
                    self._arrive(self.jobs[k], now)
                elif self.devices[k].busy_until <= now:
                    self._wake(self.devices[k], now)

    def _wake(self, device: Device, now: float) -> None:
        """End what a device has done and start what comes next."""
        if device.current is not None:
            self._over(device.current, now)
        if device.busy_until <= now:
            self._next(device, now)

    def _arrive(self, job: Job, now: float) -> None:
        if all(one.blocks_of(job) > one.limits.blocks for one in self.devices):
            self.refused.append(job)
            return
        if not self._put(job, now):
            self.line.append(job)

    def _put(self, job: Job, now: float) -> bool:
        for device in self.devices:
            for tenant, x in list(device.deployed.items()):
                if x.idle and now - x.idle_since > self.rules.keep_alive_s:
                    remove(device, tenant)
        own = place(self.devices, job, self.rules, now)
        if own is None:
            return False
        device = own.device
        job.blocks = device.blocks_of(job)
        make_room(device, job.blocks, keep=job.tenant)
        device.used += job.blocks
        own.waiting.append(job)
        self.where[job.index] = device.index
        if device.current is None:
            heapq.heappush(self.events, (max(now, own.ready_s), READY, device.index))
        return True

    def _next(self, device: Device, now: float) -> None:
        """The iteration whose token is due first; none: the device waits."""
        rules, best, least = self.rules, None, float("inf")
        later = float("inf")
        active = 0
        for x in device.deployed.values():
            if x.idle:
                continue
            active += 1
            if x.ready_s > now:
                later = min(later, x.ready_s)
                continue
            for prompt in (True, False):
                if prompt and (not x.waiting or len(x.running) >= device.limits.max_seqs):
                    continue
                if not prompt and not x.running:
                    continue
                seconds = device.prefill_s(x.waiting[0].input) if prompt else device.step_s(x.running)
                due = x.waiting[0].due(rules) if prompt else min(j.due(rules) for j in x.running)
                slack = due - now - seconds if due != float("inf") else -float(prompt)
                if slack < least:
                    best, least = (x, prompt, seconds), slack
        if best is None:
            if later < float("inf"):
                heapq.heappush(self.events, (later, READY, device.index))
            return
        x, prompt, seconds = best
        if prompt:
            self._prompt(x, now, seconds)
        else:
            self._decode(x, now, seconds, alone=active == 1 and not x.waiting)

    def _prompt(self, x: Deployed, now: float, seconds: float) -> None:
        job = x.waiting.popleft()
        self.started[job.index] = now
        end = now + seconds
        job.made, job.first, job.last = 1, end, end
        x.running.append(job)
        self.note(x.device, seconds, job.input, 0, [], 0.0)
        self._begun(x, end)

    def _decode(self, x: Deployed, now: float, seconds: float, *, alone: bool) -> None:
        steps = 1
        if alone:
            until = self.events[0][0] if self.events else float("inf")
            most = min(j.output - j.made for j in x.running)
            room = int((until - now) / seconds) if until < float("inf") else most
            steps = max(min(most, room), 1)
        slope = x.device.limits.kv_s * len(x.running)
        took = steps * seconds + slope * 0.5 * steps * (steps - 1)
        end = now + took
        kv = float(sum(j.input + j.made for j in x.running))
        self.note(x.device, took, 0, steps, [(end - j.last) / steps for j in x.running], kv)
        for j in x.running:
            j.made, j.last = j.made + steps, end
        self._begun(x, end)

    def _begun(self, x: Deployed, end: float) -> None:
        x.device.busy_until, x.device.current = end, x
        heapq.heappush(self.events, (end, FREE, x.device.index))

    def _over(self, x: Deployed, end: float) -> None:
        """An iteration is over: answers that are complete leave, and the queue may move."""
        device = x.device
        device.current = None
        gone = [j for j in x.running if j.made >= j.output]
        for j in gone:
            x.running.remove(j)
            device.used -= j.blocks
            self.ended.append(j)
        if x.idle:
            x.idle_since = end
        if gone:
            self._retry(end)

    def _retry(self, now: float) -> None:
        """Room came free: the queue in order; who waits for another deployment stands in nobody's way."""
        failed: set[int] = set()
        left: deque[Job] = deque()
        for job in self.line:
            if job.tenant in failed or not self._put(job, now):
                failed.add(job.tenant)
                left.append(job)
        self.line = left


def serve(jobs: Sequence[Job], devices: Sequence[Device], rules: Rules, note: Note) -> Loop:
    """Run all requests; the loop has who ended, when they began and where."""
    loop = Loop(jobs, devices, rules, note)
    loop.run()
    return loop
