"""Iterations of many deployments on one device: of those with something to do, the one whose token is due first.

One iteration is a whole prompt of one request, or a decode step of all requests of one deployment. A device that has
nothing else to do takes several decode steps at once.

Source: Xu et al. 2025, LLM-Mesh, sections 4 to 6: turns token by token, by slack; placements that are checked against
objectives; deployments packed so that room stays together.
"""

from __future__ import annotations

from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.twin.batch_policy import Policy
from windtunnel.serving.event_loop.twin.completion import complete
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.multi_model.placement import ModelPlacement
from windtunnel.serving.multi_model.state import Deployed, Device


class Turns:
    """One device's; the instance's `decoding` is the list of the deployment whose turn it is."""

    def __init__(self, device: Device, placement: ModelPlacement) -> None:
        self.device, self.placement = device, placement

    def wake(self, one: Instance, now: float, policy: Policy, record: Recorder | None) -> None:
        """Requests came, or weights: a device that does nothing starts."""
        if self.device.current is None:
            self.form(one, now, policy, record)

    def complete(self, one: Instance, now: float, record: Recorder | None) -> list[Request]:
        """An iteration is over: answers that are complete leave, and others may be placed."""
        own, self.device.current = self.device.current, None
        assert own is not None
        own.prompt, own.steps = None, 0
        ended = complete(one, now, record, counts=False)
        if own.idle:
            own.idle_since = now
        self.placement.freed = bool(ended)
        return ended

    def form(self, one: Instance, now: float, policy: Policy, record: Recorder | None) -> None:
        """The iteration whose token is due first; none: the device waits."""
        rules, best, least, later, active = self.placement.rules, None, float("inf"), float("inf"), 0
        for x in self.device.deployed.values():
            if x.idle:
                continue
            active += 1
            if x.ready_s > now:
                later = min(later, x.ready_s)
                continue
            for prompt in (True, False):
                if not (x.waiting and len(x.decoding) < one.limits.max_seqs if prompt else x.decoding):
                    continue
                seconds = self.device.prefill_s(x.waiting[0].input) if prompt else x.step_s(x.decoding)
                due = x.due(x.waiting[0], rules) if prompt else min(x.due(q, rules) for q in x.decoding)
                slack = due - now - seconds if due != float("inf") else -float(prompt)
                if slack < least:
                    best, least = (x, prompt, seconds), slack
        if best is None:
            one.busy_until = float("inf")
            if later < float("inf"):
                self.placement.file(one.index, later)
            return
        own, prompt, seconds = best
        one.now, one.start, one.decoding, self.device.current = now, now, own.decoding, own
        if prompt:
            self._prompt(one, own, seconds, record)
        else:
            self._decode(one, own, seconds, record, alone=active == 1 and not own.waiting)

    def _prompt(self, one: Instance, own: Deployed, seconds: float, record: Recorder | None) -> None:
        q = own.waiting[0]
        one.queue.take(one, q)
        one.asked -= q.input
        q.scheduled, q.first, q.left = one.now, one.now + seconds, q.input
        one.prompts.append(q)
        one.admitted.append(q)
        one.mode, one.chunks, one.steps, one.busy_until = "iteration", [(q, q.input)], 0, q.first
        own.prompt = q
        if record is not None:
            record.entered(one, q)
            record.ran(one, seconds, seconds, seconds * one.used)
            record.iteration(one, 0, 0.0)
            record.formed(one, q.input, 0.5 * float(q.input) * q.input)

    def _decode(self, one: Instance, own: Deployed, seconds: float, record: Recorder | None, *, alone: bool) -> None:
        steps, count = 1, len(own.decoding)
        if alone:
            until = self.placement.next_s(one)
            most = min(q.output - q.made for q in own.decoding)
            steps = max(min(most, int((until - one.now) / seconds) if until < float("inf") else most), 1)
        took = steps * seconds + one.limits.kv_s * count * 0.5 * steps * (steps - 1)
        end = one.now + took
        one.mode, one.chunks, one.steps, one.busy_until = "run", [], steps, end
        if record is not None:
            for q in own.decoding:
                record.step((end - (q.first if q.made == 1 else own.last_s)) / steps, 1, steps)
            record.ran(one, took, took * count, took * one.used)
            record.iteration(one, count, float(sum(q.input + q.made for q in own.decoding)), steps)
            record.formed(one, 0, 0.0)
        own.steps, own.last_s = steps, end
