"""A graph of one's own: nodes as a scenario lists them, the same for every problem.

`programs.strategy: {graph: {nodes: [{id: plan, output_tokens: 200}, {id: search, kind: tool, tool: index, after:
[plan]}, ...]}}`; `specs.program_nodes.GraphNode` has the fields of a node. Nothing is known of how often such a program
ends right, so its accuracy is not stated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from windtunnel.errors import ProblemList, nearest_name
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Built, Knobs, Strategy
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic import program_template as template
from windtunnel.serving.traffic.program_graph import NONE, ProgramGraph
from windtunnel.specs.loader import explain
from windtunnel.specs.program_nodes import TOOLS, GraphNode
from windtunnel.techniques.base import Knob


def build(graph: ProgramGraph, work: Workload, knobs: Knobs) -> Built:
    """All programs at once, node by node in an order in which parents come first."""
    nodes = ordered([GraphNode.model_validate(one) for one in knobs["nodes"]])
    if knobs["question"]:
        base: Any = work.questions(graph)
    else:
        base = graph.shared_text(work.spec.system_tokens) if work.spec.system_tokens else NONE
    added = template.add(graph, work.problems, steps(nodes, work), base, seed=work.seed)
    return Built(ends=template.ends(graph, work.problems, added))


def steps(nodes: list[GraphNode], work: Workload) -> list[template.Step]:
    """Nodes in order, repeats written out; what follows a repeated node follows its last."""
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    out: list[template.Step] = []
    for node in nodes:
        parents = tuple(last[name] for name in node.after)
        first[node.id] = len(out)
        for k in range(node.repeat):
            cancels = tuple(i for name in node.cancels for i in range(first[name], last[name] + 1))
            out.append(_step(node, parents, cancels, last, work, again=k > 0))
            parents = (len(out) - 1,)
        last[node.id] = len(out) - 1
    return out


def _step(
    node: GraphNode,
    parents: tuple[int, ...],
    cancels: tuple[int, ...],
    last: Mapping[str, int],
    work: Workload,
    *,
    again: bool,
) -> template.Step:
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
        )
    if node.kind == "branch":
        other = last[node.otherwise] if node.otherwise else NONE
        return template.Step(kind="branch", parents=parents, probability=node.probability, otherwise=other)
    if node.kind == "join":
        return template.Step(kind="join", parents=parents, needs=node.needs, cancels=cancels)
    scored = node.kind == "score"
    known = "context" in node.model_fields_set or not scored
    context = "history" if again else node.context if known else "fresh"
    output = node.output_tokens
    if output is None:
        output = work.verifier.output_tokens if scored else work.spec.output_tokens or work.lengths.wrong
    return template.Step(
        kind="call",
        parents=parents,
        context=context if parents else "fresh",
        input_tokens=node.input_tokens,
        output_tokens=output,
        seconds=node.delay_s,
        seconds_law=node.delay_distribution,
        pool=work.verifier_pool if scored or node.model == "verifier" else 0,
        keep_s=node.keep_s,
        reuse=node.reuse,
    )


def ordered(nodes: list[GraphNode]) -> list[GraphNode]:
    """Nodes with parents first, as listed where that is free; those of a cycle are left out."""
    out: list[GraphNode] = []
    placed: set[str] = set()
    rest = list(nodes)
    while rest:
        ready = next((n for n in rest if placed.issuperset(_before(n))), None)
        if ready is None:
            return out
        rest.remove(ready)
        out.append(ready)
        placed.add(ready.id)
    return out


def _before(node: GraphNode) -> set[str]:
    """Nodes that must be listed before it; a join comes behind what it cancels."""
    return {*node.after, *node.cancels, *([node.otherwise] if node.otherwise else [])}


def check(knobs: Knobs, problems: ProblemList, field: str) -> None:
    """Everything wrong with the nodes, at once."""
    listed = knobs["nodes"]
    if not isinstance(listed, list) or not listed:
        problems.add(f"{field}.nodes", listed, "must be a list of at least one node")
        return
    nodes: list[tuple[str, GraphNode]] = []
    own = ProblemList()
    for i, one in enumerate(listed):
        try:
            nodes.append((f"{field}.nodes[{i}]", GraphNode.model_validate(one)))
        except ValidationError as error:
            found = ProblemList(prefix=f"{field}.nodes[{i}]")
            explain(GraphNode, one, error, found)
            own.extend(found)
    names = [str(one.get("id", "")) for one in listed if isinstance(one, dict)]
    for where, node in nodes:
        _names(node, where, names, own)
    if not own:
        _shape(field, nodes, own)
    problems.extend(own)


def _names(node: GraphNode, where: str, names: list[str], problems: ProblemList) -> None:
    if names.count(node.id) > 1:
        problems.add(f"{where}.id", node.id, "is given twice")
    asked = [("after", n) for n in node.after] + [("cancels", n) for n in node.cancels]
    asked += [("otherwise", node.otherwise)] if node.otherwise else []
    for name, value in asked:
        if value not in names:
            rule = f"must name a node; these are {', '.join(names)}"
            problems.add(f"{where}.{name}", value, rule, nearest=nearest_name(value, names))


def _shape(field: str, nodes: list[tuple[str, GraphNode]], problems: ProblemList) -> None:
    """What is wrong with the graph where every node is right by itself."""
    order = [n.id for n in ordered([n for _, n in nodes])]
    circle = [n.id for _, n in nodes if n.id not in order]
    if circle:
        rule = f"has a cycle: {', '.join(circle)} wait for each other, or for what does"
        problems.add(f"{field}.nodes", circle[0], rule)
        return
    by_name = {n.id: n for _, n in nodes}
    begun: dict[str, bool] = {}
    for name in order:
        node = by_name[name]
        begun[name] = node.kind in ("call", "score") or any(begun[p] for p in node.after)
    for where, node in nodes:
        if node.kind in (*TOOLS, "join") and not begun[node.id]:
            rule = f"a {node.kind} must come behind a call; it waits for nothing that is sent"
            problems.add(f"{where}.after", list(node.after), rule)
        if node.otherwise and by_name[node.otherwise].kind != "branch":
            problems.add(f"{where}.otherwise", node.otherwise, "must name a branch")
        if node.cancels:
            places = sorted(order.index(name) for name in node.cancels)
            if places != list(range(places[0], places[-1] + 1)):
                problems.add(f"{where}.cancels", list(node.cancels), "must name nodes that follow each other")
    if not any(n.kind in ("call", "score") and not _only_if(n, by_name) for _, n in nodes):
        problems.add(f"{field}.nodes", len(nodes), "must have a call that no branch leaves out")


def _only_if(node: GraphNode, by_name: Mapping[str, GraphNode]) -> bool:
    """Whether a branch may leave a node out."""
    parents = [by_name[p] for p in node.after]
    if any(p.kind == "branch" for p in parents):
        return True
    return bool(parents) and all(_only_if(p, by_name) for p in parents)


def tools_of(knobs: Knobs) -> tuple[str, ...]:
    """Tools that nodes name."""
    named = [one.get("tool", "") for one in knobs["nodes"] if isinstance(one, dict)]
    return tuple(dict.fromkeys(str(n) for n in named if n))


def _scores(knobs: Knobs) -> bool:
    return any(
        isinstance(one, dict) and (one.get("kind") == "score" or one.get("model") == "verifier")
        for one in knobs["nodes"]
    )


STRATEGIES.add(
    "graph",
    Strategy(
        id="graph",
        summary="calls, tools, scores, joins and branches as the scenario lists them",
        build=build,
        knobs={
            "nodes": Knob([], doc="nodes: id, kind, after, and what their kind reads (specs/program_nodes.py)"),
            "question": Knob(True, doc="whether prompts begin with the problem; false: with the system prompt alone"),
        },
        scores=_scores,
        tools_of=tools_of,
        check=check,
        samples=lambda _: None,
    ),
)
