"""Instances that lend themselves to the other phase while its queue is long.

A prompt goes to the prefill instance with fewest tokens to do. Where even that one has too many prompt tokens ahead,
the request goes whole to the decode instance with fewest: it computes the prompt next to its answers and keeps the
answer. Where every decode instance has a queue, the prefill instance answers what it has computed itself. Nothing moves
then. Each request decides anew, so instances return to their own phase as soon as the queue is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.event_loop.twin.router import Router
from windtunnel.serving.routers.base import ROUTERS, RouterEntry
from windtunnel.techniques.base import Knob


class MixedPool(Router):
    """Prefill and decode instances with a border that moves."""

    decode: Sequence[Instance] = ()

    def begin(self, instances: Sequence[Instance]) -> None:
        """All instances of the run: those that answer follow those that take requests in."""
        disaggregated = any(one.prefill_only for one in instances)
        self.decode = [one for one in instances if one.answers_only] if disaggregated else ()

    def route(self, instances: list[Instance], q: Request) -> int:
        """Place of the instance that computes the prompt."""
        best = min(range(len(instances)), key=lambda k: (instances[k].tokens_to_do, k))
        one = instances[best]
        ahead = one.asked + sum(p.left for p in one.prompts)
        if not self.decode or not one.prefill_only or ahead <= self.context.options["prompt_tokens"]:
            return best
        return min(self.decode, key=lambda other: (other.tokens_to_do, other.index)).index

    def keeps(self, one: Instance, q: Request) -> bool:
        """Tell whether the instance that computes a prompt also decodes its answer."""
        least = min(other.waiting for other in self.decode)
        return bool(least >= self.context.options["answers_in_line"])


ROUTERS.add(
    "mixed_pool",
    RouterEntry(
        "Pools that lend each other instances",
        "Patel et al. 2024 (Splitwise), section 4.2: mixed pool",
        None,
        MixedPool,
        {
            "prompt_tokens": Knob(8192, 0, 1 << 30, "prompt tokens ahead from which on decode instances take prompts"),
            "answers_in_line": Knob(1, 1, 1 << 30, "queued answers, from which on prefill instances keep theirs"),
        },
    ),
)
