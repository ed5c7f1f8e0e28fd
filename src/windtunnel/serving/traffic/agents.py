"""Tasks of agents: every task is a graph of calls whose prompts are built from the answers of earlier calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats, Ints
from windtunnel.errors import BadInput, Problem
from windtunnel.machine_memory import require_bytes
from windtunnel.serving.event_loop.prompt_content import Content
from windtunnel.serving.event_loop.request_graph import Dependencies
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.traffic import lengths
from windtunnel.serving.traffic.arrivals import stream
from windtunnel.serving.traffic.single_source import sent
from windtunnel.specs.traffic import Agent, TrafficSpec

WHICH, TOOLS = 13, 14
"""Streams of random numbers beside a seed."""
_SEEDS_APART = 1_000_003
MAX_TOKENS = 2**31 - 1
_BYTES_A_CALL = 3000.0
"""Memory of a call: its columns, and the object that the reference loop makes of it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a template, repeats written out. Parents are positions in the list of steps."""

    call: int
    parents: tuple[int, ...]
    history: bool


def steps(agent: Agent) -> list[Step]:
    """Calls in order; of a repeated call, each goes on from the one before."""
    last: dict[str, int] = {}
    out: list[Step] = []
    for number, call in enumerate(agent.calls):
        parents = tuple(last[name] for name in call.after)
        for k in range(call.repeat):
            out.append(Step(number, parents, k > 0 or (call.context == "history" and bool(parents))))
            parents = (len(out) - 1,)
        last[call.id] = len(out) - 1
    return out


@dataclass(frozen=True, slots=True)
class _Calls:
    """Columns of all calls, task by task; (C,) each."""

    inputs: Ints
    """Tokens of the prompt."""
    outputs: Ints
    """Tokens of the answer."""
    own: Ints
    """Tokens that a call adds to what its prompt is built on: new prompt tokens and its answer."""
    whole: Ints
    """Tokens of prompt and answer together."""
    tool_s: Floats
    """Seconds of the tools that run before the call."""
    arrival_s: Floats
    """Arrival of first calls; nan for the others."""

    @staticmethod
    def empty(count: int) -> _Calls:
        inputs, outputs, own, whole = (np.zeros(count, np.int64) for _ in range(4))
        return _Calls(inputs, outputs, own, whole, np.zeros(count), np.full(count, np.nan))


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The tasks of one agent."""

    number: int
    """Place of the agent in the traffic."""
    agent: Agent
    start: Ints
    """(T,) place of each task's first call."""
    at_s: Floats
    """(T,) when each task begins."""


def draw(spec: TrafficSpec, seed: int) -> tuple[Requests, tuple[tuple[str, Any, str], ...]]:
    """Draw the calls of all tasks, task by task.

    Args:
        spec: traffic with agents.
        seed: seed of the random numbers.

    Returns:
        Requests with `after`, `content` and the agent's number as `tenant`; first calls have their times, the others
        nan. Nothing is assumed.

    Raises:
        BadInput: a prompt would grow beyond what a request can hold.
    """
    at_s = sent(spec, seed, spec.num_requests, 1.0)
    shares = np.array([one.share for one in spec.agents])
    which = stream(seed, WHICH).choice(len(shares), len(at_s), p=shares / shares.sum())
    sizes = np.array([len(steps(one)) for one in spec.agents])[which]
    start = np.concatenate([[0], sizes.cumsum()]).astype(np.int64)
    what = f"{int(start[-1]):,} calls of {len(at_s):,} tasks"
    require_bytes(_BYTES_A_CALL * float(start[-1]), "serving.traffic.num_requests", what)
    calls = _Calls.empty(int(start[-1]))
    chains: list[list[tuple[Any, ...]]] = []  # by agent and step: stretches, as ("system",) or offsets of steps
    edges: list[Any] = []
    for a, agent in enumerate(spec.agents):
        own = _Tasks(a, agent, start[:-1][which == a], at_s[which == a])
        chains.append(_draw_tasks(own, seed, calls, edges) if len(own.start) else [])
    if calls.whole.max(initial=0) > MAX_TOKENS:
        longest = calls.whole.max()
        raise BadInput(Problem("serving.traffic.agents", f"a prompt would grow to {longest} tokens; fewer calls"))
    task = np.repeat(np.arange(len(at_s)), sizes)
    requests = Requests(
        arrival_s=calls.arrival_s,
        input_tokens=calls.inputs.astype(np.int32),
        output_tokens=calls.outputs.astype(np.int32),
        delay_s=calls.tool_s,
        tenant=np.repeat(which, sizes).astype(np.int32),
        group=task.astype(np.int32),
        content=_content(spec, chains, which, start, calls.own),
        after=_dependencies(edges, len(calls.inputs), task),
    )
    assert requests.content is not None
    requests.prefix_tokens = requests.content.found(np.arange(len(calls.inputs)), requests.input_tokens)
    return requests, ()


def _draw_tasks(tasks: _Tasks, seed: int, calls: _Calls, edges: list[Any]) -> list[tuple[Any, ...]]:
    """Draw the calls of one agent's tasks into `calls`, and add who waits for whom to `edges`.

    Returns:
        The stretches of content that each step's prompt and answer are made of.
    """
    agent, count = tasks.agent, len(tasks.start)
    paths: list[tuple[Any, ...]] = []
    for s, step in enumerate(steps(agent)):
        call, at = agent.calls[step.call], tasks.start + s
        own_seed = seed + _SEEDS_APART * (1 + tasks.number * 1000 + s)
        new = lengths.draw(call.input_tokens, count, own_seed, lengths.INPUT).astype(np.int64)
        calls.outputs[at] = lengths.draw(call.output_tokens, count, own_seed, lengths.OUTPUT)
        drawn = stream(own_seed, TOOLS).standard_exponential(count)
        calls.tool_s[at] = call.tool_s * (drawn if call.tool_distribution == "exponential" else 1.0)
        answers = np.zeros(count, np.int64)
        for p in step.parents[1:] if step.history else step.parents:
            answers += calls.outputs[tasks.start + p]
        if step.history:
            base, path = calls.whole[tasks.start + step.parents[0]], paths[step.parents[0]]
        else:
            base, path = np.full(count, agent.system_tokens), ("system",) if agent.system_tokens else ()
        calls.inputs[at] = base + answers + new
        calls.own[at] = answers + new + calls.outputs[at]
        calls.whole[at] = calls.inputs[at] + calls.outputs[at]
        paths.append((*path, s))
        edges += [np.stack([tasks.start + p, at]) for p in step.parents]
        if not step.parents:
            calls.arrival_s[at] = tasks.at_s
    return paths


def _dependencies(edges: list[Any], count: int, task: Any) -> Dependencies:
    pairs = np.concatenate(edges, axis=1) if edges else np.zeros((2, 0), np.int64)
    order = np.argsort(pairs[0], kind="stable")
    start = np.concatenate([[0], np.bincount(pairs[0], minlength=count).cumsum()]).astype(np.int64)
    return Dependencies(start, pairs[1][order].astype(np.int32), task.astype(np.int32))


def _content(spec: TrafficSpec, chains: list[list[tuple[Any, ...]]], which: Any, start: Any, own: Any) -> Content:
    """One stretch for each call's own tokens, after one for every agent's system prompt."""
    lead = len(spec.agents)
    rows = np.zeros(int(start[-1]), np.int64)
    for a, paths in enumerate(chains):
        calls = start[:-1][which == a][:, None] + np.arange(len(paths))
        rows[calls] = np.array([len(path) for path in paths], np.int64)
    ends = np.concatenate([[0], rows.cumsum()]).astype(np.int64)
    nodes = np.empty(int(ends[-1]), np.int32)
    for a, paths in enumerate(chains):
        first = start[:-1][which == a][:, None]
        stretches = [u for path in paths for u in path]
        system = np.array([u == "system" for u in stretches], np.bool_)
        offset = np.array([0 if u == "system" else u for u in stretches], np.int64)
        places = ends[first] + np.arange(len(stretches))
        nodes[places] = np.where(system, a, lead + first + offset)
    tokens = np.concatenate([[one.system_tokens for one in spec.agents], own]).astype(np.int64)
    return Content(ends, nodes, tokens)
