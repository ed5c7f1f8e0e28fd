"""How an instance of the reference loop admits, batches and preempts."""

from __future__ import annotations

import numpy as np

from windtunnel.serving.event_loop.twin.instance import EXPECTED_MOST, MILLION, Instance
from windtunnel.serving.event_loop.twin.request import Batch, Request


class Policy:
    """How an instance admits, batches and preempts: the built-in switches of `Limits`. Override to try another."""

    def admit(self, instance: Instance, budget: int, tokens: int) -> Request | None:
        """The next request to take into the batch, or None."""
        q, limits = instance.next_in_line(), instance.limits
        if q is None or budget <= 0 or instance.running >= limits.max_seqs:
            return None
        if not q.remote and not limits.chunked and q.input + q.made - instance.known(q) > budget and tokens > 0:
            return None
        return q if self.fits(instance, q) else None

    def fits(self, instance: Instance, q: Request) -> bool:
        """Whether the cache has room for a request next to those that are there, and the step they take with it."""
        limits = instance.limits
        need = instance.wanted(q) + instance.extra(q)
        if limits.mixed:
            need += instance.growth()
        if instance.cache is not None and not q.swapped and not q.remote:
            found, free, _ = instance.cache.find(q.chain)
            need += free - found
        if not instance.running:
            return instance.room(need)
        if not instance.room(need + limits.watermark):
            return False
        if not limits.ratio_start:
            return True
        known = 0 if q.swapped or q.remote else instance.known(q) if instance.cache is None else found * limits.block
        room = (instance.capacity - instance.used) * limits.block * MILLION - instance.expected()
        left = q.input + q.made - known
        if instance.cache is not None and q.reused and not q.preemptions:
            left = max(left - q.reused, 1)
        return room > (left + min(q.output - q.made, EXPECTED_MOST)) * MILLION

    def form_batch(self, instance: Instance, now: float, *, may_admit: bool) -> Batch:
        """Prompt chunks of the next iteration; requests are admitted on the way."""
        limits = instance.limits
        budget = limits.budget - (len(instance.decoding) * limits.step_tokens if limits.mixed else 0)
        each = budget // limits.ranks  # one rank computes a prompt, within its own budget
        chunks: list[tuple[Request, int]] = []
        tokens = moved = 0
        for q in instance.prompts:
            if budget <= 0 or (not limits.chunked and q.left > budget and tokens > 0):
                break
            c = max(min(q.left, budget, each), 1) if limits.chunked else q.left
            chunks.append((q, c))
            if limits.early:
                instance.register(q, q.input + q.made - q.left + c)
            tokens, budget = tokens + c, budget - c
        fresh = may_admit and not (limits.static and instance.running)
        while fresh:
            taken = self.admit(instance, budget, tokens)
            if taken is None:
                blocked = budget > 0 and not instance.running and instance.next_in_line() is not None
                if blocked and instance.pins is not None and instance.pins.unpin_oldest(instance):
                    continue
                break
            q = taken
            instance.queue.take(instance, q)
            instance.asked -= q.input
            known = instance.found(q)
            instance.enter(q)
            if q.remote:
                q.scheduled = now
                instance.moving.append(q)
                continue
            swaps = instance.queue.swaps
            if q.swapped and swaps is not None:
                if (comes_s := swaps.back(instance, q)) is not None:
                    instance.moving.append(q)
                    instance.coming.append((comes_s, q.index))
                    continue
            else:
                moved += 2 * q.swapped
                instance.host -= q.swapped
                q.swapped = 0
            q.left = q.input + q.made - q.cached
            if np.isnan(q.scheduled):
                q.scheduled, q.hit = now, known
                if instance.pins is not None:
                    instance.pins.scheduled(q)
            instance.prompts.append(q)
            instance.admitted.append(q)
            c = max(min(q.left, budget, each), 1) if limits.chunked else q.left
            chunks.append((q, c))
            if limits.early:
                instance.register(q, q.input + q.made - q.left + c)
            tokens, budget = tokens + c, budget - c
        return Batch(chunks, decodes=not chunks or limits.mixed, moved=moved)

    def preempt(self, instance: Instance) -> Request:
        """The request to preempt when the cache is full."""
        return instance.queue.victim(instance)
