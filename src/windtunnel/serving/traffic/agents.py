"""Tasks of agents: every task is a graph of calls whose prompts are built from the answers of earlier calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, Problem
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


def draw(spec: TrafficSpec, seed: int) -> tuple[Requests, tuple[tuple[str, Any, str], ...]]:
    """Calls of all tasks, task by task.

    Returns:
        Requests with `after`, `content` and the agent's number as `tenant`; first calls have their times, the others
        nan. Nothing is assumed.
    """
    at_s = sent(spec, seed, spec.num_requests, 1.0)
    shares = np.array([one.share for one in spec.agents])
    which = stream(seed, WHICH).choice(len(shares), len(at_s), p=shares / shares.sum())
    templates = [steps(one) for one in spec.agents]
    sizes = np.array([len(t) for t in templates])[which]
    start = np.concatenate([[0], sizes.cumsum()]).astype(np.int64)
    count = int(start[-1])
    inputs, outputs = np.zeros(count, np.int64), np.zeros(count, np.int64)
    whole, tools = np.zeros(count, np.int64), np.zeros(count)
    arrival, edges = np.full(count, np.nan), []
    chains: list[list[tuple[Any, ...]]] = []  # by agent and step: stretches, as ("system",) or offsets of steps
    own = np.zeros(count, np.int64)  # tokens of each call's own stretch
    for a, (agent, template) in enumerate(zip(spec.agents, templates, strict=True)):
        tasks = start[:-1][which == a]
        if not len(tasks):
            chains.append([])
            continue
        paths: list[tuple[Any, ...]] = []
        for s, step in enumerate(template):
            call, at = agent.calls[step.call], tasks + s
            own_seed = seed + _SEEDS_APART * (1 + a * 1000 + s)
            new = lengths.draw(call.input_tokens, len(tasks), own_seed, lengths.INPUT).astype(np.int64)
            outputs[at] = lengths.draw(call.output_tokens, len(tasks), own_seed, lengths.OUTPUT)
            drawn = stream(own_seed, TOOLS).standard_exponential(len(tasks))
            tools[at] = call.tool_s * (drawn if call.tool_distribution == "exponential" else 1.0)
            heard = step.parents[1:] if step.history else step.parents
            told = np.zeros(len(tasks), np.int64)
            for p in heard:
                told += outputs[tasks + p]
            if step.history:
                base, path = whole[tasks + step.parents[0]], paths[step.parents[0]]
            else:
                base, path = np.full(len(tasks), agent.system_tokens), ("system",) if agent.system_tokens else ()
            inputs[at] = base + told + new
            own[at] = told + new + outputs[at]
            whole[at] = inputs[at] + outputs[at]
            paths.append((*path, s))
            edges += [np.stack([tasks + p, at]) for p in step.parents]
            if not step.parents:
                arrival[at] = at_s[which == a]
        chains.append(paths)
    if whole.max(initial=0) > MAX_TOKENS:
        raise BadInput(Problem("serving.traffic.agents", f"a prompt would grow to {whole.max()} tokens; fewer calls"))
    requests = Requests(
        arrival_s=arrival,
        input_tokens=inputs.astype(np.int32),
        output_tokens=outputs.astype(np.int32),
        delay_s=tools,
        tenant=np.repeat(which, sizes).astype(np.int32),
        group=np.repeat(np.arange(len(at_s)), sizes).astype(np.int32),
        content=_content(spec, chains, which, start, own),
        after=_dependencies(edges, count, np.repeat(np.arange(len(at_s)), sizes)),
    )
    assert requests.content is not None
    requests.prefix_tokens = requests.content.found(np.arange(count), requests.input_tokens)
    return requests, ()


def _dependencies(edges: list[Any], count: int, task: Any) -> Dependencies:
    pairs = np.concatenate(edges, axis=1) if edges else np.zeros((2, 0), np.int64)
    order = np.argsort(pairs[0], kind="stable")
    start = np.concatenate([[0], np.bincount(pairs[0], minlength=count).cumsum()]).astype(np.int64)
    return Dependencies(start, pairs[1][order].astype(np.int32), task.astype(np.int32))


def _content(spec: TrafficSpec, chains: list[list[tuple[Any, ...]]], which: Any, start: Any, own: Any) -> Content:
    """One stretch for each call's own tokens, after one for every agent's system prompt."""
    lead = len(spec.agents)
    rows = np.array([len(path) for a in which for path in chains[a]], np.int64)
    ends = np.concatenate([[0], rows.cumsum()]).astype(np.int64)
    nodes = np.empty(ends[-1], np.int32)
    at = 0
    for a, first in zip(which.tolist(), start[:-1].tolist(), strict=True):
        for path in chains[a]:
            for u in path:
                nodes[at] = a if u == "system" else lead + first + u
                at += 1
    tokens = np.concatenate([[one.system_tokens for one in spec.agents], own]).astype(np.int64)
    return Content(ends, nodes, tokens)
