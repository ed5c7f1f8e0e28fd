"""When a request's first token would come, as a router or an admission rule can tell when the request arrives.

Known are the queue, the batch and the instance's own iteration times; unknown is how long requests will stay in the
batch: their mean so far stands for it. The queue is taken to be served in order of arrival. What is predicted is a
forecast, and may be wrong by what comes later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request

FIRST_GUESS = 256.0
"""Tokens of an answer before the first one has ended (assumed)."""


class Forecast:
    """One object a run; `ended` is notified of every answer."""

    def __init__(self, instances: Sequence[Instance]) -> None:
        self.instances = instances
        self.answers, self.stayed_s = 0, 0.0

    def ended(self, q: Request) -> None:
        """An answer is complete."""
        self.answers += 1
        self.stayed_s += q.finish - q.scheduled

    def stay_s(self, one: Instance) -> float:
        """Mean seconds that a request holds its place."""
        return self.stayed_s / self.answers if self.answers else FIRST_GUESS * self.step_s(one, one.running)

    def step_s(self, one: Instance, sequences: int) -> float:
        """A decode step of so many sequences, at the mean cache of those that decode now."""
        limits, decoding = one.limits, len(one.decoding)
        each = sum(q.stored + 1 for q in one.decoding) / decoding if decoding else 0.0
        count = max(sequences, 1)
        return float(one.linear[_within(one, count)]) + limits.per_sequence_s * count + limits.kv_s * each * count

    def prefill_s(self, one: Instance, tokens: float, decoding: int) -> float:
        """Prompt tokens in iterations that are filled to the budget, next to sequences that decode."""
        limits = one.limits
        beside = decoding if limits.mixed else 0
        room = max(limits.budget - beside, 1)
        whole, rest = divmod(max(tokens, 0.0), room)
        each = max(float(one.linear[_within(one, room + beside)]), limits.prompt_floor_s)
        last = max(float(one.linear[_within(one, int(rest) + beside)]), limits.prompt_floor_s) if rest else 0.0
        cache = limits.kv_s * sum(q.stored + 1 for q in one.decoding) if beside else 0.0
        return whole * each + last + (whole + (rest > 0)) * (cache + limits.per_sequence_s * beside)

    def alone_s(self, one: Instance, q: Request) -> float:
        """The whole request by itself on an instance, but for the part of its prompt whose cache is there now."""
        found = one.known(q) if one.cache is not None else q.cached
        return self.prefill_s(one, q.input - found, 0) + q.output * self.step_s(one, 1)

    def ttft_s(self, one: Instance, q: Request, now: float) -> float:
        """From now to the first token: the iteration under way, places that must become free, prompts in front."""
        limits = one.limits
        left = sum(p.left for p in one.prompts)
        found = one.known(q) if one.cache is not None else q.cached
        work = self.prefill_s(one, one.asked + left + q.input - found, len(one.decoding))
        under_way = one.busy_until - now if one.mode == "iteration" else one.step_s if one.mode == "run" else 0.0
        ahead = one.waiting + 1
        held = one.used / one.running if one.running else 0.0
        places = min(float(limits.max_seqs), limits.blocks / held if held else float(limits.max_seqs))
        lacking = ahead - (places - one.running)
        wait = 0.0
        if lacking > 0 and one.running:
            wait = lacking / places * self.stay_s(one)
        return max(under_way, 0.0) + max(work, wait)

    def tpot_s(self, one: Instance) -> float:
        """A decode step with one sequence more."""
        return self.step_s(one, min(one.running + one.waiting + 1, one.limits.max_seqs))


def _within(one: Instance, tokens: int) -> int:
    return min(tokens, len(one.linear) - 1)
