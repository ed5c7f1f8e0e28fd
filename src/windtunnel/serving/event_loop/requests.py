"""Requests as arrays: what traffic makes, and what a simulation writes back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from windtunnel.arrays import Floats, Int32s, Ints
from windtunnel.importers.traces.record import PrefixBlocks
from windtunnel.serving.event_loop.prompt_content import Content
from windtunnel.serving.event_loop.request_graph import Dependencies

DONE, REJECTED, SHED, CANCELLED = 4, 5, 6, 7
"""States of a request after a run. A rejected one needs more cache than there is; an admission rule shed the next; a
joint of its program took the last one back (`Dependencies.cancels`)."""


@dataclass(slots=True, kw_only=True)
class Requests:
    """R requests. Seconds; tokens. Arrays have shape (R,)."""

    arrival_s: Floats
    """When each is sent; set by the loop for requests that follow another or belong to a closed loop."""
    input_tokens: Int32s
    output_tokens: Int32s
    """Tokens generated, the first included."""
    cached_tokens: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """Tokens of the prompt that the cache has already (before any preemption)."""
    priority: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """0 (served first) to 7."""
    group: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """Shared prefix or session, for routing."""
    tenant: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """Who sends it: a number from 0 (`traffic.tenants`)."""
    prefix_tokens: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """First tokens of the prompt that an earlier request holds (its session's turns, a system prompt, a trace's equal
    blocks): what a cache that forgets nothing would have."""
    prefix_blocks: PrefixBlocks | None = None
    """What each prompt holds, block by block, where a trace says it."""
    pool: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """Group of instances (`Fleet.groups`) that each is routed in: the model that it asks for."""
    reused_tokens: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """Prompt tokens whose keys and values are taken over from other calls and not computed (branches merged into one
    context), next to those of a common prefix. They take blocks of their own. A preempted request computes them."""
    keep_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Seconds for which prompt and answer of a call that is done stay in the prefix cache whatever happens, or until a
    call that waits for it is scheduled. 0: they stay until others need the room; −1: they are dropped at once, but for
    what other calls hold (with KV tiers they go down a level). Kept blocks give way, the oldest first, where an
    instance could run nothing else. Without prefix caching nothing is kept."""
    content: Content | None = None
    """What prompts and answers consist of, where it is more than sessions and one prefix that all share."""
    after: Dependencies | None = None
    """Which requests wait for which others, where it is more than one after one other (`follow`): calls of agents.
    Their `delay_s` is that before the request itself. A task, one program of calls, is over when all of its requests
    and joints are; a closed loop keeps so many tasks in flight, not calls."""
    follow: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """Request that is sent after this one ended, or −1."""
    delay_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Seconds between this one's end and the next one's arrival."""
    deadline_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Objective of the program that each belongs to, seconds from the program's first call; infinite: none."""
    scheduled_s: Floats = field(default_factory=lambda: np.zeros(0))
    first_token_s: Floats = field(default_factory=lambda: np.zeros(0))
    finish_s: Floats = field(default_factory=lambda: np.zeros(0))
    preemptions: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    instance: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    state: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    generated_tokens: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """Tokens really made: `output_tokens` of a request that is done, fewer of a cancelled one, else 0."""
    prompt_end_s: Floats = field(default_factory=lambda: np.zeros(0))
    """Where another instance answered: when the prompt was computed. NaN otherwise, as the next two."""
    answer_scheduled_s: Floats = field(default_factory=lambda: np.zeros(0))
    """When that instance kept blocks for it."""
    moved_s: Floats = field(default_factory=lambda: np.zeros(0))
    """When the cache had come there."""
    answered_by: Int32s = field(default_factory=lambda: np.zeros(0, np.int32))
    """That instance, or −1."""

    def __post_init__(self) -> None:
        count = len(self.input_tokens)
        for name, empty, value in (
            ("cached_tokens", np.int32, 0),
            ("priority", np.int32, 0),
            ("group", np.int32, 0),
            ("follow", np.int32, -1),
            ("prefix_tokens", np.int32, 0),
            ("delay_s", np.float64, 0.0),
            ("deadline_s", np.float64, np.inf),
            ("scheduled_s", np.float64, np.nan),
            ("first_token_s", np.float64, np.nan),
            ("finish_s", np.float64, np.nan),
            ("preemptions", np.int32, 0),
            ("instance", np.int32, -1),
            ("state", np.int32, 0),
            ("generated_tokens", np.int32, 0),
            ("pool", np.int32, 0),
            ("reused_tokens", np.int32, 0),
            ("keep_s", np.float64, 0.0),
            ("tenant", np.int32, 0),
            ("prompt_end_s", np.float64, np.nan),
            ("answer_scheduled_s", np.float64, np.nan),
            ("moved_s", np.float64, np.nan),
            ("answered_by", np.int32, -1),
        ):
            if len(getattr(self, name)) != count:
                setattr(self, name, np.full(count, value, empty))

    def __len__(self) -> int:
        return len(self.input_tokens)

    @property
    def work_tokens(self) -> Int32s:
        """(R,) tokens made of each answer, those of cancelled calls included: what the devices worked for."""
        cancelled = np.where(self.state == CANCELLED, self.generated_tokens, 0)
        return np.where(self.state == DONE, self.output_tokens, cancelled).astype(np.int32)

    def order(self) -> Ints:
        """Requests that no other one brings on, by arrival (in their own order where that is not set)."""
        heads = np.ones(len(self), np.bool_)
        heads[self.follow[self.follow >= 0]] = False
        if self.after is not None:
            heads[self.after.children[self.after.children < len(self)]] = False
        own = np.flatnonzero(heads)
        when = self.arrival_s[own]
        return own if np.isnan(when).all() else own[np.argsort(when, kind="stable")]
