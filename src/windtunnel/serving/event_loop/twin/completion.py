"""What leaves a batch of the reference loop: requests that are preempted, and answers that are complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from windtunnel.serving.event_loop.recorder import Recorder
from windtunnel.serving.event_loop.twin.batch_policy import Policy
from windtunnel.serving.event_loop.twin.instance import MILLION, Instance
from windtunnel.serving.event_loop.twin.request import Request

if TYPE_CHECKING:
    from windtunnel.serving.speculation.acceptance import Pace


def take_back(one: Instance, q: Request, record: Recorder | None) -> None:
    """Drop a request's cache; it is computed again, first in the queue."""
    decoding, swaps = q in one.decoding, one.queue.swaps
    if record is not None:
        record.preempted(one)
    copied = decoding and swaps is not None and swaps.out(one, q)  # they time its return themselves
    if swaps is not None:
        if not copied:
            swaps.ended(one, q)
    elif decoding and one.host + q.blocks <= one.limits.swap_blocks:
        q.swapped = q.blocks
        one.host += q.blocks
    one.leave(q, q.stored if decoding else q.input + q.made - q.left)
    one.admitted.remove(q)
    (one.decoding if decoding else one.prompts).remove(q)
    if decoding:
        q.finish = float("nan") if copied else one.now  # its last token so far
    q.cached, q.preemptions = 0, q.preemptions + 1
    one.queue.put_back(one, q)
    one.asked += q.input


def make_room(one: Instance, policy: Policy, record: Recorder | None, fixed: Sequence[Request] = ()) -> bool:
    """Preempt requests until the next decode step has blocks, but none of `fixed`; returns whether it had to."""
    limits, preempted = one.limits, False
    while one.decoding:
        need = one.growth()
        if preempted and len(one.decoding) > 1:
            need = max(need, one.blocks(len(one.decoding) * limits.retract))
        if limits.reserve or one.room(need):
            break
        if one.running == 1 and one.pins is not None and one.pins.unpin_oldest(one):
            continue
        victim = policy.preempt(one)
        if victim in fixed:
            if len(one.decoding) == 1:
                break
            victim = next(q for q in reversed(one.admitted) if q not in fixed)
        take_back(one, victim, record)
        preempted = True
    if preempted and limits.ratio_start:
        made = sum(q.made for q in one.decoding) + limits.retract * len(one.decoding)
        one.ratio = min(MILLION, made * MILLION // (1 + sum(q.output for q in one.decoding)))
    return preempted


def complete(
    one: Instance, now: float, record: Recorder | None, pace: Pace | None = None, *, counts: bool = True
) -> list[Request]:
    """The iteration or run is over.

    Args:
        one: whose iteration.
        now: seconds.
        record: of the run.
        pace: see `LoopRules`.
        counts: whether the iteration is counted here.

    Returns:
        The requests that ended with it, in order.
    """
    ended = []
    limits, steps = one.limits, one.steps
    if counts and record is not None:
        record.ended(one, now)
    one.now = now
    one.queue.served(one, one.chunks if one.mode == "iteration" else (), one.gained(steps) if steps else 0)
    if steps and one.decoding:
        one.polled = (one.polled + steps) % max(limits.poll, 1)
        gained = one.gained(steps)
        if pace is None:
            one.fraction += steps * limits.tokens_per_step - gained * MILLION
        for q in one.decoding:
            gained = gained if pace is None else pace.tokens(q)
            q.made += gained
            q.stored += gained
            if not limits.reserve:
                need = -(-(q.stored + limits.lookahead) // limits.block)
                one.used += need - q.blocks
                q.blocks = need
        if one.cache is not None:
            one.cache.evict(one.capacity - one.used)
        one.ratio = max(one.ratio - limits.ratio_decay * steps, limits.ratio_least)
    if counts and record is not None:
        record.grown(one, now)
    if steps and one.decoding:
        over = [q for q in one.decoding if q.made >= q.output]
        ended = sorted(over, key=lambda q: (q.output - q.made, q.index))
        for q in ended:
            _finish(one, q, now)
    if one.mode == "iteration":
        for q, c in one.chunks:
            q.left -= c
            one.register(q, q.input + q.made - q.left)
            if q.left:
                continue
            one.prompts.remove(q)
            q.stored = q.input + q.made
            if q.made == 0:
                q.first = now
            elif record is not None and not np.isnan(q.finish):
                record.since(now - q.finish)
            q.made += 1
            q.held = min(q.stored + 1 + (q.output - q.made) // 2, limits.window)
            if q.answer is None:
                one.decoding.append(q)
            if q.made >= q.output:
                _finish(one, q, now)
                ended.append(q)
    for q in reversed(one.cancelled):
        if not q.over:
            drop(one, q, now)
            ended.append(q)
    one.cancelled.clear()
    if one.pins is not None:
        for q in ended:
            one.pins.keep_or_drop(one, q)
    one.mode = "idle"
    return ended


def _finish(one: Instance, q: Request, now: float) -> None:
    """An answer (or the prompt of one that another instance makes) is complete and leaves the batch."""
    q.finish, q.over, q.cancelled = now, q.answer is None, q.cancel
    one.admitted.remove(q)
    if q.answer is None:
        q.pinned = one.cache is not None and q.keep > 0.0 and not q.cancel
        one.leave(q, min(q.stored, q.input + q.output - 1))
        one.decoding.remove(q)


def drop(one: Instance, q: Request, now: float) -> None:
    """A running request that was taken back leaves the batch between two steps."""
    decoding = q in one.decoding
    one.leave(q, q.stored if decoding else q.input + q.made - q.left)
    one.admitted.remove(q)
    (one.decoding if decoding else one.prompts).remove(q)
    q.finish, q.over, q.cancelled = now, True, True
