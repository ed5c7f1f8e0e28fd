"""Requests: how they arrive, how long they are, who sends them."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, model_validator

from windtunnel.errors import Problem
from windtunnel.specs.base import Count, Inconsistent, Seconds, Spec
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.trajectories import Trajectories

CLASSES = 8
"""Classes of priority: 0 (served first) to 7."""


MOST_TURNS = 10_000
"""Turns of a conversation: at one token a turn and answer already the context of most models."""


class Sessions(Spec):
    """Conversations: each turn's prompt holds the turns before it."""

    turns: Lengths = Lengths(mean=1.0)
    """Turns of a conversation."""
    think_time_s: Seconds = 0.0
    """Mean time between an answer and the next turn (exponential)."""

    @model_validator(mode="after")
    def _few_turns(self) -> Sessions:
        given = {"mean": self.turns.mean, "max": self.turns.max, "values": max(self.turns.values, default=None)}
        rule = f"must be at most {MOST_TURNS:,} turns, each prompt of which holds all turns before it"
        problems = [
            Problem(f"turns.{name}", rule, value)
            for name, value in given.items()
            if value is not None and value > MOST_TURNS
        ]
        if problems:
            raise Inconsistent(problems)
        return self


class Tenant(Spec):
    """One of several who send requests. What is absent is as `traffic` has it."""

    name: str = Field(min_length=1)
    """Name in results."""
    share: float | None = Field(default=None, gt=0)
    """Share of `rate_per_s` and `num_requests`, next to the other tenants' shares; absent: 1."""
    rate_per_s: float | None = Field(default=None, ge=1e-9, le=1e9)
    """Own rate, in place of a share."""
    concurrency: Count | None = None
    """Own closed loop: this many requests are in flight; needs `num_requests`."""
    num_requests: Count | None = None
    """Requests that it sends; absent: its share of all."""
    weight: float = Field(default=1.0, gt=0)
    """Weight of the tenant under queue disciplines that share service fairly."""
    priority: int = Field(default=0, ge=0, lt=CLASSES)
    """0 is served first."""
    process: Literal["poisson", "gamma", "constant", "bursty", "diurnal"] | None = None
    """How its requests arrive."""
    burstiness: float | None = Field(default=None, gt=0)
    """Shape of gamma arrivals: 1 is Poisson, below 1 burstier."""
    period_s: Seconds | None = None
    """`bursty`, `diurnal`: seconds of a period."""
    peak_to_mean: float | None = Field(default=None, ge=1)
    """`bursty`, `diurnal`: highest rate over the mean one."""
    input_tokens: Count | Lengths | None = None
    """Tokens of its prompts."""
    output_tokens: Count | Lengths | None = None
    """Tokens of its answers."""
    shared_prefix_tokens: int | None = Field(default=None, ge=0)
    """First tokens that its own prompts share; absent: the prefix that all tenants share."""
    prefixes: Count = 1
    """Different prefixes of that many tokens; each prompt (or session) begins with one of them."""
    sessions: Sessions | None = None
    """Conversations of several turns."""
    start_s: Seconds = 0.0
    """When it begins to send."""
    end_s: Seconds | None = None
    """When it sends: from `start_s` on, before `end_s`."""
    ttft_s: Seconds | None = Field(default=None, gt=0)
    """Own objective; absent: `serving.slo`."""
    tpot_s: Seconds | None = Field(default=None, gt=0)
    """Own objective of seconds a token; absent: `serving.slo`."""
    e2e_s: Seconds | None = Field(default=None, gt=0)
    """Own objective of seconds a request; absent: `serving.slo`."""

    @model_validator(mode="after")
    def _one_way(self) -> Tenant:
        problems = []
        ways = [n for n in ("share", "rate_per_s", "concurrency") if getattr(self, n) is not None]
        if len(ways) > 1:
            problems.append(Problem(ways[0], f"and {ways[1]} exclude each other"))
        if self.concurrency is not None and self.num_requests is None:
            problems.append(Problem("num_requests", "is required by concurrency"))
        if self.concurrency is not None and self.sessions is not None:
            problems.append(Problem("sessions", "is not read with a tenant's concurrency"))
        if self.end_s is not None and self.end_s <= self.start_s:
            problems.append(Problem("end_s", f"must be above start_s {self.start_s:g}", value=self.end_s))
        if self.concurrency is not None and self.end_s is not None:
            problems.append(Problem("end_s", "is not read with concurrency: num_requests ends the loop"))
        if problems:
            raise Inconsistent(problems)
        return self


class AgentCall(Spec):
    """One call of a model in an agent's work, and the tools that run before it."""

    id: str = Field(min_length=1)
    """Name of the call, which later ones refer to."""
    after: tuple[str, ...] = ()
    """Calls, listed before this one, whose answers its prompt holds; it is sent when the last of them and its tools
    have ended. Absent: it is sent when the task begins."""
    context: Literal["history", "fresh"] = "history"
    """`history`: the prompt goes on from the first call of `after` (its whole prompt and answer); `fresh`: it begins
    anew, with the system prompt and the answers of `after`."""
    input_tokens: Count | Lengths
    """New tokens: what the caller and its tools add."""
    output_tokens: Count | Lengths
    """Tokens of its answer."""
    tool_s: Seconds = 0.0
    """Mean seconds of the tools before this call."""
    tool_distribution: Literal["fixed", "exponential"] = "exponential"
    """How seconds of the tools are distributed."""
    repeat: int = Field(default=1, gt=0, le=1000)
    """Such calls in a row, each going on from the one before; calls that come after it follow the last."""


class Agent(Spec):
    """A task as a graph of calls: what depends on what, and what prompts are built from."""

    name: str = Field(min_length=1)
    """Name in results."""
    share: float = Field(default=1.0, gt=0)
    """Share of the tasks, next to the other agents' shares."""
    system_tokens: int = Field(default=0, ge=0)
    """First tokens that the prompts of all its tasks share; they come before those of each call."""
    calls: tuple[AgentCall, ...] = Field(min_length=1)
    """Its calls, each after those that it depends on."""
    latency_s: Seconds | None = None
    """Objective of a whole task."""

    @model_validator(mode="after")
    def _ordered(self) -> Agent:
        problems, known = [], set[str]()
        for i, call in enumerate(self.calls):
            if call.id in known:
                problems.append(Problem(f"calls[{i}].id", "is given twice", value=call.id))
            for name in call.after:
                if name not in known:
                    rule = f"must name calls listed before; these are {', '.join(sorted(known)) or 'none'}"
                    problems.append(Problem(f"calls[{i}].after", rule, value=name))
            if len(set(call.after)) < len(call.after):
                problems.append(Problem(f"calls[{i}].after", "names a call twice", value=list(call.after)))
            if call.tool_s and not call.after:
                problems.append(Problem(f"calls[{i}].tool_s", "is not read: nothing comes before it", call.tool_s))
            known.add(call.id)
        if problems:
            raise Inconsistent(problems)
        return self


class TrafficSpec(Spec):
    """Requests: how they arrive and how long they are, or a trace of both."""

    rate_per_s: float | None = Field(default=None, ge=1e-9, le=1e9)
    """Requests (or programs) that arrive a second."""
    concurrency: Count | None = None
    """Closed loop: this many requests are in flight; the next is sent when one ends."""
    offline: bool = False
    """All requests are there at the start."""
    process: Literal["poisson", "gamma", "constant", "bursty", "diurnal"] = "poisson"
    """How arrivals follow one another: `constant` evenly, `bursty` and `diurnal` with peaks."""
    burstiness: float = Field(default=1.0, gt=0)
    """Shape of gamma arrivals, as in vLLM's bench: 1 is Poisson, below 1 burstier."""
    period_s: Seconds = 86400.0
    """`diurnal`, `bursty`: length of one cycle."""
    peak_to_mean: float = Field(default=2.0, ge=1)
    """`diurnal`, `bursty`: rate at the peak over the mean rate; at most 2 for `diurnal`, a sine."""
    num_requests: Count | None = None
    """Requests of the run."""
    duration_s: Seconds | None = None
    """Seconds in which requests arrive, in place of a number of them."""
    warmup_requests: int = Field(default=0, ge=0)
    """First requests that metrics leave out."""
    input_tokens: Count | Lengths | None = None
    """Tokens of prompts: one number, or a distribution."""
    output_tokens: Count | Lengths | None = None
    """Tokens of answers: one number, or a distribution."""
    correlation: float = Field(default=0.0, ge=-1, le=1)
    """Rank correlation of prompt and answer lengths."""
    shared_prefix_tokens: int = Field(default=0, ge=0)
    """First tokens that all prompts share (a system prompt)."""
    sessions: Sessions | None = None
    """Conversations whose turns go on from each other."""
    tenants: tuple[Tenant, ...] = ()
    """Who sends the requests; absent: one tenant. Their results are reported next to the whole."""
    agents: tuple[Agent, ...] = ()
    """Tasks of several calls in place of single requests; `rate_per_s`, `concurrency` and `num_requests` then count
    tasks. Their latency from end to end is reported next to that of calls."""
    trajectories: Trajectories | None = None
    """Several answers to each prompt that share its blocks; `rate_per_s`, `concurrency` and `num_requests` then count
    prompts."""
    priorities: tuple[float, ...] = ()
    """Shares of requests in class 0 (served first), 1, …: classes are drawn by request (by session); `queue: priority`
    reads them. Tenants have their own."""
    trace: str | None = None
    """File, relative to the scenario."""
    trace_format: str = "auto"
    """A reader's id (azure, burstgpt, mooncake, sharegpt, vllm_bench, aiperf …); auto: by the file's content."""
    trace_time_unit: Literal["s", "ms"] | None = None
    """Unit of the trace's times; absent: told by its format."""
    trace_block_size: Count | None = None
    """Tokens of one prefix hash of a trace."""
    trace_characters_per_token: float | None = Field(default=None, gt=0)
    """Traces that hold text, not counts."""
    time_scale: float = Field(default=1.0, gt=0)
    """Factor on a trace's arrival rate."""
    seed: int = Field(default=0, ge=0)
    """Seed of arrivals and lengths."""

    @model_validator(mode="after")
    def _one_process(self) -> TrafficSpec:
        problems = []
        given = [n for n in ("rate_per_s", "concurrency") if getattr(self, n) is not None]
        given += ["offline"] if self.offline else []
        if len(given) > 1:
            problems.append(Problem(given[0], f"and {given[1]} exclude each other"))
        own = bool(self.tenants) and all(t.rate_per_s or t.concurrency for t in self.tenants)
        if not given and self.trace is None and not own:
            problems.append(Problem("rate_per_s", "or concurrency, offline: true, or a trace is required"))
        if self.trace is None:
            for name in ("input_tokens", "output_tokens"):
                if (
                    getattr(self, name) is None
                    and not self.agents
                    and not (self.tenants and all(getattr(t, name) for t in self.tenants))
                ):
                    problems.append(Problem(name, "is required without a trace"))
            if self.num_requests is None and (self.concurrency or self.offline):
                problems.append(Problem("num_requests", "is required by concurrency and offline"))
            elif self.num_requests is None and self.duration_s is None and not self._tenants_end():
                problems.append(Problem("num_requests", "or duration_s is required without a trace"))
        if self.process == "diurnal" and self.peak_to_mean > 2:
            problems.append(Problem("peak_to_mean", "must be at most 2 for diurnal, a sine", value=self.peak_to_mean))
        if self.process in ("diurnal", "bursty") and self.period_s == 0:
            problems.append(Problem("period_s", f"must be above 0 for {self.process}", value=0))
        if self.process not in ("gamma", "bursty") and self.burstiness != 1:
            problems.append(Problem("burstiness", "is read by gamma and bursty alone", value=self.burstiness))
        problems += self._who()
        if self.trajectories is not None:
            for name in ("sessions", "tenants", "agents", "trace", "correlation"):
                if getattr(self, name):
                    problems.append(Problem(name, "is not read with trajectories; leave it out"))
        if problems:
            raise Inconsistent(problems)
        return self

    def _tenants_end(self) -> bool:
        """Whether every tenant says itself when it stops."""
        return bool(self.tenants) and all(t.num_requests or t.end_s for t in self.tenants)

    def _no_other_requests(self) -> list[Problem]:
        """What agents leave no room for."""
        problems = []
        names = [one.name for one in self.agents]
        for name in sorted({n for n in names if names.count(n) > 1}):
            problems.append(Problem("agents", "must have names of their own", value=name))
        unread = (
            "input_tokens",
            "output_tokens",
            "sessions",
            "tenants",
            "trace",
            "shared_prefix_tokens",
            "correlation",
        )
        for field in unread:
            if getattr(self, field):
                problems.append(Problem(field, "is not read with agents, which say it by call; leave it out"))
        if self.concurrency:
            for i, one in enumerate(self.agents):
                first = [call.id for call in one.calls if not call.after]
                if len(first) > 1:
                    rule = "must begin with one call: a closed loop sends a task's first call when another task ends"
                    problems.append(Problem(f"agents[{i}].calls", rule, value=first))
        return problems

    def _who(self) -> list[Problem]:
        """What tenants and classes contradict."""
        problems = []
        names = [t.name for t in self.tenants]
        for name in sorted({n for n in names if names.count(n) > 1}):
            problems.append(Problem("tenants", "must have names of their own", value=name))
        if self.tenants and self.trace is not None:
            problems.append(Problem("tenants", "are not read with a trace"))
        if self.agents:
            problems += self._no_other_requests()
        if self.tenants and self.priorities:
            problems.append(Problem("priorities", "are those of the tenants; leave it out"))
        if len(self.priorities) > CLASSES or not all(0 <= p < math.inf for p in self.priorities):
            problems.append(Problem("priorities", f"must be at most {CLASSES} shares of 0 or more", self.priorities))
        elif self.priorities and not sum(self.priorities):
            problems.append(Problem("priorities", "must not all be 0", self.priorities))
        for i, t in enumerate(self.tenants):
            peak = t.peak_to_mean or self.peak_to_mean
            if (t.process or self.process) == "diurnal" and peak > 2:
                problems.append(Problem(f"tenants[{i}].peak_to_mean", "must be at most 2 for diurnal, a sine", peak))
            if t.period_s == 0:
                problems.append(Problem(f"tenants[{i}].period_s", "must be above 0", 0))
        if self.concurrency or self.offline:
            for i, t in enumerate(self.tenants):
                for field in ("rate_per_s", "concurrency", "start_s", "end_s"):
                    if getattr(t, field):
                        rule = "is not read with traffic.concurrency or traffic.offline"
                        problems.append(Problem(f"tenants[{i}].{field}", rule, getattr(t, field)))
        return problems
