"""Sharding signatures of a chain of operators on one mesh axis, and the exchanges that join them.

A tensor is replicated (B), split by rows (S0: tokens) or by columns (S1: features), or a partial sum (P). An operator
accepts some signatures; between two that do not agree an exchange converts the tensor (OneFlow's *boxing*). Known
layouts propagate forward and backward through operators that leave them open (GSPMD), or follow from two rules on the
shape of a weight (Redco); what is still open goes to the cheapest exchanges.

Sources: Yuan et al. 2021, OneFlow, https://arxiv.org/abs/2110.15032, section 3 and Table 2;
Xu et al. 2021, GSPMD, https://arxiv.org/abs/2105.04663, sections 3.2 and 3.5; Tan et al. 2023, Redco,
https://arxiv.org/abs/2310.16355, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from windtunnel.graph import Block, Kind

B, ROWS, COLUMNS, PARTIAL = "B", "S0", "S1", "P"
Exchange = Callable[[str, float], float]
"""(collective, bytes of the whole tensor) → seconds."""

_BOXING: Mapping[tuple[str, str], str] = {
    (ROWS, B): "all_gather",
    (COLUMNS, B): "all_gather",
    (ROWS, COLUMNS): "all_to_all",
    (COLUMNS, ROWS): "all_to_all",
    (PARTIAL, B): "all_reduce",
    (PARTIAL, ROWS): "reduce_scatter",
    (PARTIAL, COLUMNS): "reduce_scatter",
}
"""Conversions that need the network; the others cut or reuse what a rank has."""


def boxing(source: str, target: str) -> str:
    """The collective that converts a layout; empty where none is needed.

    Raises:
        ValueError: nothing turns a tensor into a partial sum on purpose.
    """
    if target == PARTIAL and source != PARTIAL:
        raise ValueError(f"{source} to P: a partial sum is only ever a result")
    return _BOXING.get((source, target), "")


@dataclass(frozen=True, slots=True)
class Signature:
    """How one operator may run: layouts of its input, weight and output."""

    name: str
    x: str
    weight: str
    y: str


DATA = Signature("data", ROWS, B, ROWS)
COLUMN = Signature("column", B, COLUMNS, COLUMNS)
ROW = Signature("row", COLUMNS, ROWS, PARTIAL)
WHOLE = Signature("whole", B, B, B)
HEADS = Signature("heads", COLUMNS, B, COLUMNS)
PRODUCT = (DATA, COLUMN, ROW, WHOLE)
ALONG = (DATA, HEADS, WHOLE)
"""Work on every element, or on every head: any layout but a partial sum."""
BY_ROW = (DATA, WHOLE)
"""Norms and residuals need whole rows."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of the chain."""

    name: str
    options: tuple[Signature, ...]
    out_bytes: float
    """Bytes of the whole output."""
    weight_bytes: float = 0.0
    """Bytes of the whole weight's gradient."""


@dataclass(frozen=True, slots=True)
class Step:
    """A node with its signature and the exchange before it."""

    node: Node
    signature: Signature
    exchange: str
    seconds: float
    """Exchange forward, its counterpart backward, and the reduction of the weight's gradient."""


_BACK = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather", "all_to_all": "all_to_all", "all_reduce": ""}


def _edge(source: str, target: Signature, nbytes: float, seconds: Exchange) -> tuple[str, float]:
    """Exchange between an output layout and an input; its forward and backward seconds.

    Backward, the gradient of a replicated input that columns read is a partial sum: it is reduced once more.
    """
    operation = boxing(source, target.x)
    total = seconds(operation, nbytes) if operation else 0.0
    if target is COLUMN and source in (B, PARTIAL):
        total += seconds("all_reduce", nbytes)
    elif operation and _BACK[operation]:
        total += seconds(_BACK[operation], nbytes)
    return operation, total


def chain_of(block: Block) -> list[Node]:
    """Products, attention, norms and activations of a block in order."""
    out = []
    tokens = max(op.m for op in block.operators)
    width = block.operators[0].element_bytes
    for op in block.operators:
        if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM):
            out.append(Node(op.name, PRODUCT, op.m * op.n * width, op.params * width))
        else:
            previous = out[-1].out_bytes if out else tokens * _hidden(block) * width
            along = op.rule in ("heads", "features")
            size = tokens * _hidden(block) * width if op.rule in ("heads", "sequence") else previous
            out.append(Node(op.name, ALONG if along else BY_ROW, size))
    return out


def _hidden(block: Block) -> float:
    return next((op.k for op in block.operators if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM)), 1.0)


def propagate(chain: Sequence[Node], given: Mapping[str, Signature]) -> list[Node]:
    """The chain with the options that annotations leave: neighbours take up a layout that needs no exchange.

    Layouts travel forward, then backward, through nodes that are not annotated, as far as they fit.
    """
    nodes = [
        Node(n.name, (given[n.name],) if n.name in given else n.options, n.out_bytes, n.weight_bytes) for n in chain
    ]
    for order in (range(1, len(nodes)), range(len(nodes) - 2, -1, -1)):
        for i in order:
            if len(nodes[i].options) == 1:
                continue
            forward = order.step == 1
            near = nodes[i - 1 if forward else i + 1]
            if len(near.options) > 1:
                continue
            one = near.options[0]
            fits = tuple(s for s in nodes[i].options if (s.x == one.y if forward else s.y == one.x))
            if fits:
                nodes[i] = Node(nodes[i].name, fits, nodes[i].out_bytes, nodes[i].weight_bytes)
    return nodes


def two_rules(chain: Sequence[Node]) -> dict[str, Signature]:
    """Redco's rules: a product is split by outputs until an operator has taken up its split, the next one by inputs.

    So the two products of an MLP make a pair, and so do queries, keys and values (split alike, however many products
    make them) and the output of attention.
    """
    out: dict[str, Signature] = {}
    taken = False
    for node in chain:
        if node.options == PRODUCT:
            out[node.name] = ROW if taken else COLUMN
            taken = False
        elif node.options == ALONG and COLUMN in out.values():
            taken = next(reversed(out.values())) is COLUMN
    return out


def cheapest(chain: Sequence[Node], seconds: Exchange, begin: str, end: str | None = None) -> list[Step]:
    """Signatures with the least exchange time, by dynamic programming over the layouts between operators.

    Args:
        chain: operators in order.
        seconds: what a collective takes.
        begin: layout of the first input.
        end: layout that the last output must have; absent: that of the first input.
    """
    want = begin if end is None else end
    best: dict[str, tuple[float, list[Step]]] = {begin: (0.0, [])}
    nbytes = chain[0].out_bytes
    for node in chain:
        found: dict[str, tuple[float, list[Step]]] = {}
        for layout, (cost, steps) in best.items():
            for signature in node.options:
                operation, took = _edge(layout, signature, nbytes, seconds)
                if signature.weight == B and signature.x == ROWS and node.weight_bytes:
                    took += seconds("all_reduce", node.weight_bytes)
                total = cost + took
                if signature.y not in found or total < found[signature.y][0]:
                    found[signature.y] = (total, [*steps, Step(node, signature, operation, took)])
        best, nbytes = found, node.out_bytes
    last = chain[-1]
    closed = []
    for layout, (cost, steps) in best.items():
        operation = boxing(layout, want)
        took = seconds(operation, nbytes) if operation else 0.0
        closed.append((cost + took, steps, operation, took))
    _, steps, operation, took = min(closed, key=lambda x: x[0])
    return [*steps, Step(Node("end of block", (), last.out_bytes), WHOLE, operation, took)]
