"""How the cache of a preempted request moves between device and host, where a scenario says it (`kv.swap`).

A paged cache is not contiguous: every block has keys and values in every layer, and each of these is a copy of its own
whose start costs time. Blocks that are allocated in groups are copied together. Copies are waited for, or run on the
link next to iterations; a request joins the batch when its cache has come. A host copy that is kept holds full blocks
that never change, so that the next time only newer ones leave.

Left out: blocks that leave while iterations run are free at once (Shen et al. wait for a copy only where a new owner
writes first); copies that outlast a request, for the next turn of its conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windtunnel.serving.event_loop.instance_limits import Limits
    from windtunnel.serving.event_loop.recorder import Recorder
    from windtunnel.serving.event_loop.twin.instance import Instance
    from windtunnel.serving.event_loop.twin.request import Request
    from windtunnel.specs.serving import SwapSpec

NUMBERS = 1 << 40
"""Numbers of events from here on are those of swaps."""


def swaps_of(spec: SwapSpec | None, limits: Limits, layers: int) -> Swaps | None:
    """How caches are copied, where a scenario says it and the host has room.

    Args:
        spec: `kv.swap`.
        limits: of one lane.
        layers: of one lane: each block has keys and values in all of them.
    """
    if spec is None or not limits.swap_blocks:
        return None
    return Swaps(
        limits.swap_block_s,
        2 * layers,
        spec.copy_s,
        group=spec.group_blocks,
        asynchronous=spec.asynchronous,
        reuse=spec.reuse,
    )


class Swaps:
    """One object a run.

    Args:
        block_s: seconds of one block at the link's rate.
        copies: of one block: keys and values of every layer.
        copy_s: at least, of one copy, from its start to the next one's.
        group: blocks that one copy moves.
        asynchronous: whether copies run during iterations.
        reuse: whether host copies are kept while a request lives.
    """

    def __init__(
        self,
        block_s: float,
        copies: int,
        copy_s: float,
        *,
        group: int = 1,
        asynchronous: bool = False,
        reuse: bool = False,
    ) -> None:
        self.block_s, self.copies, self.copy_s = block_s, copies, copy_s
        self.group, self.asynchronous, self.reuse = group, asynchronous, reuse
        self.free_s: dict[int, float] = {}
        """When the link of each instance is free."""
        self.held: dict[int, int] = {}
        """Blocks of a request that the host has, by request."""
        self.left_s: dict[int, float] = {}
        """When each request that was preempted had made its last token."""
        self.returned: dict[int, list[tuple[Request, bool]]] = {}
        """By instance: who is back and has made no token yet, and whether it decodes (or is a prompt of one token)."""
        self.stalled_s = 0.0
        self.moved_blocks = 0

    def seconds(self, blocks: int) -> float:
        """To copy so many blocks: bound by the link, or by the starts of copies."""
        return max(blocks * self.block_s, -(-blocks // self.group) * self.copies * self.copy_s)

    def out(self, one: Instance, q: Request) -> bool:
        """A decoding request is preempted: whether the host has room, and if so its cache leaves."""
        held = self.held.get(q.index, 0)
        if one.host + q.blocks - held > one.limits.swap_blocks:
            return False
        self.left_s[q.index] = one.now
        one.host += q.blocks - held
        self._copy(one, q.blocks - held)
        q.swapped = q.blocks
        self.held[q.index] = q.blocks
        return True

    def back(self, one: Instance, q: Request) -> float | None:
        """A request that was swapped is admitted: when its cache has come; None: the iteration waits for it."""
        blocks, q.swapped = q.swapped, 0
        full = (q.input + q.made - 1) // one.limits.block
        if not self.reuse:
            one.host -= self.held.pop(q.index)
        else:
            one.host -= self.held[q.index] - min(full, blocks)
            self.held[q.index] = min(full, blocks)
        self._copy(one, blocks)
        if self.asynchronous:
            return self.free_s[one.index]
        self.returned.setdefault(one.index, []).append((q, False))
        return None

    def started(self, one: Instance, now: float, record: Recorder | None) -> None:
        """What comes next is formed: the time since the last token of those who are back is a time between tokens."""
        waits = []
        for q, decodes in self.returned.pop(one.index, ()):
            if one.mode == "idle" or (decodes and not one.steps):
                waits.append((q, decodes))
            elif record is not None:
                record.returned(now + one.step_s - self.left_s[q.index], one.step_s if decodes else None)
        if waits:
            self.returned[one.index] = waits

    def _copy(self, one: Instance, blocks: int) -> None:
        seconds = self.seconds(blocks)
        self.moved_blocks += blocks
        if self.asynchronous:
            self.free_s[one.index] = max(self.free_s.get(one.index, 0.0), one.now) + seconds
        else:
            one.stall_s += seconds
            self.stalled_s += seconds

    def ended(self, one: Instance, q: Request) -> None:
        """An answer is complete, or a request lost its place for good: its host copy is dropped."""
        one.host -= self.held.pop(q.index, 0)

    def join(self, one: Instance) -> None:
        """Requests whose cache has come decode from now on."""
        ready, one.ready = one.ready, []
        for q in ready:
            q.stored = q.input + q.made - 1
            q.held = min(q.stored + 1 + (q.output - q.made) // 2, one.limits.window)
            one.decoding.append(q)
            one.admitted.append(q)
            self.returned.setdefault(one.index, []).append((q, True))
