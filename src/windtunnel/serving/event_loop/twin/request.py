"""A request on its way through the reference loop, and what one iteration computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    """One request on its way. Tokens; seconds."""

    index: int
    input: int
    output: int
    cached: int
    priority: int
    group: int
    arrival: float
    delay: float
    follow: int
    scheduled: float = float("nan")
    first: float = float("nan")
    finish: float = float("nan")
    left: int = 0
    chunk: int = 0
    made: int = 0
    stored: int = 0
    blocks: int = 0
    held: int = 0
    preemptions: int = 0
    instance: int = -1
    rejected: bool = False
    hit: int = 0
    swapped: int = 0
    chain: tuple[int, ...] = ()
    nodes: int = 0
    shared: int = 0
    tenant: int = 0
    shed: bool = False
    remote: bool = False
    """Its cache is on the instance that computed its prompt, or on its way from there."""
    answer: Request | None = None
    """The decode request of a prompt that another instance answers."""
    pool: int = 0
    """Group of instances that it is routed in."""
    reused: int = 0
    """Prompt tokens whose cache it takes over from other calls."""
    keep: float = 0.0
    """Seconds for which its blocks stay once it is over; below 0: they are dropped."""
    pinned: bool = False
    """They stay now."""
    sent: bool = False
    """It has arrived."""
    over: bool = False
    """It is answered, rejected, shed or cancelled."""
    cancel: bool = False
    """It was taken back; while it runs it ends with the step under way."""
    cancelled: bool = False
    """It ended because of that."""
    prompt: Request | None = None
    """The prefill request that this decode request continues."""


@dataclass(slots=True)
class Batch:
    """What one iteration computes: prompt tokens by request, and whether the decoding sequences take a step."""

    chunks: list[tuple[Request, int]]
    decodes: bool
    moved: int = 0
    """Blocks that are copied between host and device."""
