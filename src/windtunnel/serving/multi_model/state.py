"""Devices and deployments on them, with the times and blocks that decisions are made of."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.queue import Queue
from windtunnel.serving.event_loop.twin.request import Request


@dataclass(frozen=True, slots=True)
class Rules:
    """What placements and turns follow."""

    shared: bool
    keep_alive_s: float
    ttft_s: float
    """Objective times margin, as the next one; infinite: none."""
    tpot_s: float


class LineByModel(Queue):
    """Requests to each model in order of arrival."""

    @staticmethod
    def _line(one: Instance, q: Request) -> deque[Request]:
        return one.lines.setdefault(q.tenant, deque())


@dataclass(slots=True, eq=False)
class Deployed:
    """A tenant's weights on a device. During an iteration its requests count as they are at its end."""

    tenant: int
    device: Device
    ready_s: float
    decoding: list[Request] = field(default_factory=list)
    prompt: Request | None = None
    """Its prompt under way."""
    steps: int = 0
    """Its decode steps under way."""
    last_s: float = 0.0
    """When its decode steps under way, or the last ones, end."""
    idle_since: float = 0.0

    @property
    def waiting(self) -> Sequence[Request]:
        """Its queued requests."""
        return self.device.one.lines.get(self.tenant, ())

    @property
    def running(self) -> list[Request]:
        """Those that it has begun."""
        return self.decoding if self.prompt is None else [*self.decoding, self.prompt]

    @property
    def idle(self) -> bool:
        """Whether nothing is to do."""
        return not self.waiting and not self.decoding and self.prompt is None

    def made(self, q: Request) -> int:
        """Tokens of an answer."""
        return 0 if isnan(q.scheduled) else max(q.made, 1) + self.steps

    def due(self, q: Request, rules: Rules) -> float:
        """When its next token is due: tokens that came early may be followed by late ones."""
        made = self.made(q)
        return q.first + made * rules.tpot_s if made else q.arrival + rules.ttft_s

    def step_s(self, jobs: Sequence[Request], more: int = 0) -> float:
        """One decode step of its requests, and of so many more of their mean length."""
        return self.device.step_s(len(jobs), float(sum(q.input + self.made(q) for q in jobs)), more)


@dataclass(slots=True, eq=False, kw_only=True)
class Device:
    """One device (or instance of a pool) that deployments share."""

    one: Instance
    linear: Floats
    """Seconds of an iteration by its computed tokens."""
    weight_blocks: int
    """Blocks of the cache that one deployment's weights take."""
    load_s: float
    """To bring weights there; 0 on the host."""
    host: bool = False
    """A CPU, whose memory holds all weights anyway."""
    deployed: dict[int, Deployed] = field(default_factory=dict)
    current: Deployed | None = None
    """Whose iteration is under way."""

    @property
    def blocks(self) -> int:
        """For weights and caches; the instance's own limit is what one copy of the weights leaves."""
        return self.one.limits.blocks + self.weight_blocks

    def free_s(self, now: float) -> float:
        """When the iteration under way ends."""
        return now if self.current is None else self.one.busy_until

    def blocks_of(self, q: Request) -> int:
        """That a request takes: its whole answer is reserved."""
        return self.one.wanted(q) + self.one.extra(q)

    def prefill_s(self, tokens: int) -> float:
        """One whole prompt by itself."""
        limits = self.one.limits
        n = min(tokens, len(self.linear) - 1)
        seconds = max(float(self.linear[n]) * (tokens / n), limits.prompt_floor_s) + limits.prompt_token_s * tokens
        return seconds + limits.pair_s * 0.5 * float(tokens) * tokens + limits.per_sequence_s

    def step_s(self, count: int, kv: float, more: int = 0) -> float:
        """One decode step of so many sequences over so many cached tokens, and of some more of their mean length."""
        limits = self.one.limits
        kv += more * (kv / count if count else 1000.0)
        count += more
        return float(self.linear[min(count, len(self.linear) - 1)]) + limits.per_sequence_s * count + limits.kv_s * kv
