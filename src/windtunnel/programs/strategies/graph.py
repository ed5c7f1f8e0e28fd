"""A graph of one's own: nodes as a scenario lists them, the same for every problem.

`programs.strategy: {graph: {nodes: [{id: plan, output_tokens: 200}, {id: search, kind: tool, tool: index, after:
[plan]}, ...]}}`; `specs.program_nodes.GraphNode` has the fields of a node. What nodes return (whether an attempt is
right, whether a judge accepts it) is drawn from the population, so that branches, joins and loops depend on it.
`answer` names the node whose attempt is the program's; accuracy is then that of the programs as they were drawn.
Without it nothing is known of how often such a program ends right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pydantic import ValidationError

from windtunnel.errors import ProblemList, nearest_name
from windtunnel.programs.choose_attempt import verdict_rates
from windtunnel.programs.outcomes import PopulationOutcomes
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, OffPeak, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.scenarios.explain import explain
from windtunnel.serving.traffic import program_template as template
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.specs.program_nodes import JUDGES, TOOLS, GraphNode
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """All programs at once, node by node in an order in which parents come first."""
    nodes = [GraphNode.model_validate(one) for one in knobs["nodes"]]
    asleep = [n for n in nodes if n.off_peak]
    system: Any = graph.shared_text(work.spec.system_tokens) if work.spec.system_tokens else NONE
    off_peak, system = _off_peak(graph, work, asleep, knobs, system) if asleep else (None, system)
    base = graph.text(work.problems, work.prompt_tokens, context=system) if knobs["question"] else system
    own, names = steps([n for n in nodes if not n.off_peak], work)
    outcomes = PopulationOutcomes(work)
    added = template.add(graph, work.problems, own, base, seed=work.seed, outcomes=outcomes)
    answer = knobs.get("answer")
    right = added[names[answer]].right if answer else None
    return Built(ends=template.ends(graph, work.problems, own, added), right=right, off_peak=off_peak)


def _off_peak(
    graph: ProgramGraph, work: Workload, nodes: Sequence[GraphNode], knobs: Knobs, system: Any
) -> tuple[OffPeak, Any]:
    """Calls that are made while devices are idle, one for every `shared_by` problems, and the text that they leave."""
    group = work.problems // knobs["shared_by"]
    own = np.arange(int(group.max(initial=0)) + 1)
    asleep = ProgramGraph(np.zeros(len(own)))
    before = asleep.shared_text(work.spec.system_tokens) if work.spec.system_tokens else NONE
    ends, notes = [], np.zeros(len(own), np.int64)
    for node in nodes:
        output = node.output_tokens if node.output_tokens is not None else work.lengths.wrong
        tokens = np.maximum(work.new_tokens(output, len(own)), 1)
        read = work.new_tokens(node.input_tokens, len(own))
        ends.append(asleep.call(own, context=before, new=read, output=tokens))
        notes = notes + tokens
    last = asleep.join(own, after=np.stack(ends, axis=1))
    first = own * knobs["shared_by"]
    note = graph.text(first, notes, context=system)
    return OffPeak(graph=asleep, ends=last, price_share=knobs["off_peak_price"]), note[group]


@dataclass(frozen=True, slots=True)
class _Names:
    """Positions of nodes among the steps."""

    last: dict[str, int] = field(default_factory=dict)
    """Of a node, the last of its repeats, or what a loop hands on."""
    first: dict[str, int] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    """Nodes that are about an attempt: one itself, a judge, a choice."""


def steps(nodes: Sequence[GraphNode], work: Workload) -> tuple[list[template.Step], dict[str, int]]:
    """Nodes in order, repeats and rounds written out; what follows a repeated node follows its last.

    Returns:
        Steps, and the position of each node that is not in a loop.
    """
    out: list[template.Step] = []
    names = _Names()
    for node in ordered(nodes):
        _write(node, (), names, out, work)
    return out, names.last


def _write(node: GraphNode, entry: tuple[int, ...], names: _Names, out: list[template.Step], work: Workload) -> None:
    """Add a node's steps; `entry` is what it waits for where it names nothing."""
    parents = tuple(names.last[name] for name in node.after) or entry
    names.first[node.id] = len(out)
    if node.kind == "loop":
        _loop(node, parents, names, out, work)
    else:
        for k in range(node.repeat):
            out.append(_step(node, parents, names, work, again=k > 0))
            parents = (len(out) - 1,)
    names.last[node.id] = len(out) - 1
    if node.attempt or node.choose or node.kind == "loop" or out[-1].judged != NONE:
        names.told.add(node.id)


def _loop(node: GraphNode, parents: tuple[int, ...], names: _Names, out: list[template.Step], work: Workload) -> None:
    """Rounds, each behind a branch that the judges of the one before decide, and the last one that ran."""
    order = ordered(node.nodes)
    named = {name for inner in order for name in inner.after}
    sinks = [inner.id for inner in order if inner.id not in named]
    ends: list[int] = []
    judges: list[int] = []
    for k in range(node.times):
        inner = _Names(dict(names.last), dict(names.first), set(names.told))
        entry = parents
        if k:
            asked = tuple(judges[-len(node.rejected) :])
            out.append(template.Step(kind="branch", parents=(ends[-1],), rejected=asked))
            entry = (len(out) - 1,)
        for one in order:
            _write(one, entry, inner, out, work)
        if len(sinks) > 1:
            out.append(template.Step(kind="join", parents=tuple(inner.last[name] for name in sinks)))
        ends.append(len(out) - 1 if len(sinks) > 1 else inner.last[sinks[0]])
        judges += [inner.last[name] for name in node.rejected]
    told = tuple(judges[:: max(len(node.rejected), 1)]) if node.rejected else tuple(ends)
    out.append(template.Step(kind="latest", parents=tuple(reversed(ends)), outcomes=tuple(reversed(told))))


def _step(node: GraphNode, parents: tuple[int, ...], names: _Names, work: Workload, *, again: bool) -> template.Step:
    if node.kind in TOOLS:
        tool = work.spec.tools.get(node.tool)
        result = node.result_tokens if node.result_tokens is not None else tool.result_tokens if tool else 0
        return template.Step(
            kind="tool",
            parents=parents,
            input_tokens=result,
            seconds=tool.seconds if tool else node.seconds or 0.0,
            seconds_law=tool.distribution if tool else "exponential",
            server=work.tool_class(node.tool) if tool else NONE,
            needs=0 if again else node.needs,
            judged=names.last[node.of] if node.of else NONE,
            rates=work.tool_rates(node.tool) if tool else (1.0, 0.0),
        )
    if node.kind == "branch":
        return template.Step(
            kind="branch",
            parents=parents,
            probability=node.probability,
            otherwise=names.last[node.otherwise] if node.otherwise else NONE,
            accepted=tuple(names.last[name] for name in node.accepted),
            rejected=tuple(names.last[name] for name in node.rejected),
        )
    if node.kind == "join":
        cancels = tuple(i for name in node.cancels for i in range(names.first[name], names.last[name] + 1))
        return template.Step(
            kind="join", parents=parents, needs=node.needs, cancels=cancels, choose=node.choose, early=node.early
        )
    scored = node.kind == "score"
    known = "context" in node.model_fields_set or not scored
    context = "history" if again else node.context if known else "fresh"
    output, new = node.output_tokens, node.input_tokens
    if output is None:
        output = work.verifier.output_tokens if scored else work.spec.output_tokens or work.lengths.wrong
    if scored and "input_tokens" not in node.model_fields_set:
        new = work.verifier.input_tokens
    return template.Step(
        kind="call",
        parents=parents,
        context=context if parents else "fresh",
        input_tokens=new,
        output_tokens=output,
        seconds=node.delay_s,
        seconds_law=node.delay_distribution,
        pool=work.pool_of("verifier" if scored else node.model),
        keep_s=node.keep_s,
        reuse=node.reuse,
        attempt=node.attempt,
        worth=node.worth,
        right_tokens=work.lengths.right if node.attempt and node.output_tokens is None else None,
        judged=_judged(node, names) if not again else NONE,
        rates=verdict_rates(work.quality) if scored else (1.0, 0.0),
    )


def _judged(node: GraphNode, names: _Names) -> int:
    """Position of what a judge judges; −1: nothing."""
    if node.of:
        return names.last[node.of]
    if node.kind != "score":
        return NONE
    return next((names.last[name] for name in node.after if name in names.told), NONE)


def ordered(nodes: Sequence[GraphNode]) -> list[GraphNode]:
    """Nodes with parents first, as listed where that is free; those of a cycle are left out."""
    out: list[GraphNode] = []
    own, placed = {n.id for n in nodes}, set[str]()
    rest = list(nodes)
    while rest:
        ready = next((n for n in rest if placed.issuperset(_before(n) & own)), None)
        if ready is None:
            return out
        rest.remove(ready)
        out.append(ready)
        placed.add(ready.id)
    return out


def _before(node: GraphNode) -> set[str]:
    """Nodes that must be listed before it; a join comes behind what it cancels, a loop behind what its nodes name."""
    found = {*node.after, *node.cancels, *([node.otherwise] if node.otherwise else [])}
    return found.union(*(_before(one) for one in node.nodes)) - {one.id for one in every(node.nodes)}


def every(nodes: Sequence[GraphNode]) -> Iterator[GraphNode]:
    """Nodes, and those of loops."""
    for node in nodes:
        yield node
        yield from every(node.nodes)


def check(knobs: Knobs, problems: ProblemList, field: str) -> None:
    """Everything wrong with the nodes, at once."""
    listed = knobs["nodes"]
    if not isinstance(listed, list) or not listed:
        problems.add(f"{field}.nodes", listed, "must be a list of at least one node")
        return
    nodes: list[Placed] = []
    own = ProblemList()
    for i, one in enumerate(listed):
        try:
            nodes.append((f"{field}.nodes[{i}]", GraphNode.model_validate(one)))
        except ValidationError as error:
            own.extend(problem.under(f"{field}.nodes[{i}]") for problem in explain(GraphNode, one, error))
    names = [str(one.get("id", "")) for one in listed if isinstance(one, dict)]
    inner = [one.id for _, node in nodes for one in every(node.nodes)]
    for where, node in nodes:
        _names(node, where, names, [*names, *inner], own)
    if not own:
        _shape(field, nodes, own)
    if not own and (answer := knobs.get("answer")):
        told = {n.id for _, n in nodes if _tells(n, {m.id: m for _, m in nodes})}
        if answer not in told:
            rule = f"must name an attempt, a judge of one, a join that chooses or a loop; these are {_listed(told)}"
            own.add(f"{field}.answer", answer, rule, nearest=nearest_name(answer, told))
    problems.extend(own)


Placed = tuple[str, GraphNode]
"""A node with the field that it is stated in."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _names(node: GraphNode, where: str, names: Sequence[str], all_names: Sequence[str], problems: ProblemList) -> None:
    """Ids that are given twice, and names of what is not there; `names` are those that the node may wait for."""
    if all_names.count(node.id) > 1:
        problems.add(f"{where}.id", node.id, "is given twice")
    asked = [("after", n) for n in node.after] + [("cancels", n) for n in node.cancels]
    asked += [("otherwise", node.otherwise)] if node.otherwise else []
    for name, value in asked:
        if value not in names:
            rule = f"must name a node; these are {', '.join(names)}"
            problems.add(f"{where}.{name}", value, rule, nearest=nearest_name(value, names))
    inside = [one.id for one in node.nodes]
    for judge in node.rejected if node.kind == "loop" else ():
        if judge not in inside:
            rule = f"must name a node of the loop; these are {', '.join(inside)}"
            problems.add(f"{where}.rejected", judge, rule, nearest=nearest_name(judge, inside))
    for i, one in enumerate(node.nodes):
        _names(one, f"{where}.nodes[{i}]", [n for n in [*names, *inside] if n != node.id], all_names, problems)
        if one.off_peak:
            problems.add(f"{where}.nodes[{i}].off_peak", True, "is not for nodes of a loop; put it before")


def _shape(field: str, nodes: Sequence[Placed], problems: ProblemList) -> None:
    """What is wrong with the graph where every node is right by itself."""
    asleep = {n.id for _, n in nodes if n.off_peak}
    for where, node in nodes:
        for name in node.after:
            if name in asleep:
                rule = "is made beforehand, and its answer is in every prompt: leave it out of after"
                problems.add(f"{where}.after", name, rule)
    awake = [(w, n) for w, n in nodes if not n.off_peak]
    _shape_of(f"{field}.nodes", awake, {}, problems, begun=False)
    by_name = {n.id: n for _, n in awake}
    if not problems and not any(_has_call(n) and not _only_if(n, by_name) for _, n in awake):
        problems.add(f"{field}.nodes", len(nodes), "must have a call that no branch leaves out")


def _has_call(node: GraphNode) -> bool:
    return node.kind in ("call", "score") or any(_has_call(one) for one in node.nodes)


def _shape_of(
    field: str, nodes: Sequence[Placed], outer: Mapping[str, GraphNode], problems: ProblemList, *, begun: bool
) -> None:
    """The same of one list of nodes; `begun` says whether a call has been sent before those that wait for nothing."""
    order = [n.id for n in ordered([n for _, n in nodes])]
    circle = [n.id for _, n in nodes if n.id not in order]
    if circle:
        rule = f"has a cycle: {', '.join(circle)} wait for each other, or for what does"
        problems.add(field, circle[0], rule)
        return
    by_name = {**outer, **{n.id: n for _, n in nodes}}
    sent: dict[str, bool] = {}
    for name in order:
        node = by_name[name]
        before = any(sent.get(p, True) for p in node.after) if node.after else begun
        sent[name] = _has_call(node) or before
        where = next(w for w, n in nodes if n.id == name)
        if node.kind in (*TOOLS, "join") and not before:
            rule = f"a {node.kind} must come behind a call; it waits for nothing that is sent"
            problems.add(f"{where}.after", list(node.after), rule)
        if node.kind == "loop":
            inside = [(f"{where}.nodes[{i}]", one) for i, one in enumerate(node.nodes)]
            _shape_of(f"{where}.nodes", inside, by_name, problems, begun=before)
            _ends_of_rounds(where, node, problems)
    for where, node in nodes:
        _links(where, node, by_name, order, problems)


def _ends_of_rounds(where: str, node: GraphNode, problems: ProblemList) -> None:
    named = {name for one in node.nodes for name in one.after}
    for i, one in enumerate(node.nodes):
        if one.kind == "branch" and one.id not in named:
            problems.add(
                f"{where}.nodes[{i}].id", one.id, "is a branch that nothing follows; a round cannot end with it"
            )


def _links(
    where: str, node: GraphNode, by_name: Mapping[str, GraphNode], order: Sequence[str], problems: ProblemList
) -> None:
    """What a node asks of those that it names."""
    if node.otherwise and by_name[node.otherwise].kind != "branch":
        problems.add(f"{where}.otherwise", node.otherwise, "must name a branch")
    if node.cancels:
        places = sorted(order.index(name) for name in node.cancels if name in order)
        if len(places) < len(node.cancels) or places != list(range(places[0], places[-1] + 1)):
            problems.add(f"{where}.cancels", list(node.cancels), "must name nodes that follow each other")
    if node.of and not _tells(by_name[node.of], by_name):
        problems.add(
            f"{where}.of", node.of, "must name an attempt (attempt: true), or a join or loop that ends with one"
        )
    own = {**by_name, **{one.id: one for one in node.nodes}}
    for name in ("accepted", "rejected"):
        for judge in getattr(node, name):
            if not _judges(own[judge], own):
                problems.add(f"{where}.{name}", judge, "must name a judge: a score, or a tool with of")
    if node.choose:
        for parent in node.after:
            fits = _judges if node.choose == "accepted" else _tells
            if not fits(by_name[parent], by_name):
                what = "judges" if node.choose == "accepted" else "attempts or judges of them"
                problems.add(f"{where}.after", parent, f"must name {what}: choose: {node.choose} is among these")


def _tells(node: GraphNode, by_name: Mapping[str, GraphNode]) -> bool:
    """Whether a node is about an attempt: one itself, a judge of one, a choice, or a loop that ends with a judge."""
    if node.attempt or node.choose or (node.kind == "loop" and node.rejected):
        return True
    if node.kind == "score" and not node.of:
        return any(_tells(by_name[name], by_name) for name in node.after if name in by_name)
    return node.kind in JUDGES and bool(node.of)


def _judges(node: GraphNode, by_name: Mapping[str, GraphNode]) -> bool:
    """Whether a node says accepted or rejected."""
    if node.kind in JUDGES or (node.kind == "join" and node.choose):
        return _tells(node, by_name)
    return node.kind == "loop" and bool(node.rejected)


def _only_if(node: GraphNode, by_name: Mapping[str, GraphNode]) -> bool:
    """Whether a branch may leave a node out."""
    parents = [by_name[p] for p in node.after]
    if any(p.kind == "branch" for p in parents):
        return True
    return bool(parents) and all(_only_if(p, by_name) for p in parents)


def tools_of(knobs: Knobs) -> tuple[str, ...]:
    """Tools that nodes name."""
    named = [one.get("tool", "") for one in _listed_nodes(knobs["nodes"])]
    return tuple(dict.fromkeys(str(n) for n in named if n))


def roles_of(knobs: Knobs) -> tuple[str, ...]:
    """Models next to those that answer and verify that nodes name."""
    named = [one.get("model", "") for one in _listed_nodes(knobs["nodes"])]
    return tuple(dict.fromkeys(str(n) for n in named if n and n not in ("answers", "verifier")))


def _scores(knobs: Knobs) -> bool:
    return any(one.get("kind") == "score" or one.get("model") == "verifier" for one in _listed_nodes(knobs["nodes"]))


def _listed_nodes(listed: Any) -> Iterator[dict[str, Any]]:
    """Nodes as they are stated, and those of loops."""
    for one in listed if isinstance(listed, list | tuple) else ():
        if isinstance(one, dict):
            yield one
            yield from _listed_nodes(one.get("nodes"))


STRATEGIES.add(
    "graph",
    Strategy(
        id="graph",
        summary="calls, tools, scores, joins, branches and loops as the scenario lists them",
        build=build,
        knobs={
            "nodes": Knob([], doc="nodes: id, kind, after, and what their kind reads (specs/program_nodes.py)"),
            "answer": Knob("", doc="node whose attempt is the program's answer; absent: accuracy is not stated"),
            "question": Knob(True, doc="whether prompts begin with the problem; false: with the system prompt alone"),
            "shared_by": Knob(1, 1, 10**6, doc="problems that share what off-peak nodes write"),
            "off_peak_price": Knob(0.1, 0.0, 1.0, doc="price of idle devices, in their price"),
        },
        scores=_scores,
        tools_of=tools_of,
        roles_of=roles_of,
        check=check,
        samples=lambda _: None,
    ),
)
