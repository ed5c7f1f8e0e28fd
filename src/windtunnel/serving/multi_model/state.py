"""Devices, deployments on them and requests, with the times and blocks that decisions are made of."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop.instance_limits import Limits


@dataclass(frozen=True, slots=True)
class Rules:
    """What placements and turns follow."""

    shared: bool
    keep_alive_s: float
    start_s: float
    ttft_s: float
    """Objective times margin, as the next one; infinite: none."""
    tpot_s: float


@dataclass(slots=True, eq=False, kw_only=True)
class Job:
    """One request. Tokens; seconds."""

    index: int
    tenant: int
    input: int
    output: int
    arrival: float
    made: int = 0
    first: float = 0.0
    last: float = 0.0
    blocks: int = 0

    def due(self, rules: Rules) -> float:
        """When its next token is due: tokens that came early may be followed by late ones."""
        return self.arrival + rules.ttft_s if not self.made else self.first + self.made * rules.tpot_s


@dataclass(slots=True, eq=False)
class Deployed:
    """A tenant's weights on a device."""

    tenant: int
    device: Device
    ready_s: float
    waiting: deque[Job] = field(default_factory=deque)
    running: list[Job] = field(default_factory=list)
    idle_since: float = 0.0

    @property
    def idle(self) -> bool:
        """Whether nothing is to do."""
        return not self.waiting and not self.running


@dataclass(slots=True, eq=False, kw_only=True)
class Device:
    """One device (or instance of a pool) that deployments share."""

    index: int
    limits: Limits
    linear: Floats
    """Seconds of an iteration by its computed tokens."""
    weight_blocks: int
    """Blocks of the cache that one deployment's weights take."""
    load_s: float
    """To bring weights there; 0 on the host."""
    host: bool = False
    """A CPU, whose memory holds all weights anyway."""
    used: int = 0
    deployed: dict[int, Deployed] = field(default_factory=dict)
    busy_until: float = -1.0
    current: Deployed | None = None
    """Whose iteration is under way."""

    @property
    def blocks(self) -> int:
        """For weights and caches; `limits.blocks` is what one copy of the weights leaves."""
        return self.limits.blocks + self.weight_blocks

    def blocks_of(self, job: Job) -> int:
        """That a request takes: its whole answer is reserved."""
        return -(-(job.input + job.output) // self.limits.block)

    def prefill_s(self, tokens: int) -> float:
        """One whole prompt by itself."""
        limits = self.limits
        n = min(tokens, len(self.linear) - 1)
        seconds = max(float(self.linear[n]) * (tokens / n), limits.prompt_floor_s) + limits.prompt_token_s * tokens
        return seconds + limits.pair_s * 0.5 * float(tokens) * tokens + limits.per_sequence_s

    def step_s(self, jobs: list[Job], more: int = 0) -> float:
        """One decode step of a deployment's requests, and of so many more of their mean length."""
        count = len(jobs) + more
        kv = float(sum(j.input + j.made for j in jobs))
        kv += more * (kv / len(jobs) if jobs else 1000.0)
        limits = self.limits
        return float(self.linear[min(count, len(self.linear) - 1)]) + limits.per_sequence_s * count + limits.kv_s * kv
