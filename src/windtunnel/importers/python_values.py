"""Values that stand in Python source, without running it: literals, and names that the file sets to literals."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windtunnel.importers.launch import Launch


def constants(body: Iterable[ast.stmt]) -> dict[str, ast.Constant]:
    """Names set to one literal number, text or truth value, and to nothing else."""
    found: dict[str, ast.Constant] = {}
    changed: set[str] = set()
    for node in body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        if isinstance(target, ast.Name):
            changed |= {target.id} & found.keys()
            if isinstance(node.value, ast.Constant):
                found[target.id] = node.value
    return {name: value for name, value in found.items() if name not in changed}


def value_of(node: ast.expr, names: dict[str, ast.Constant]) -> Any:
    """The value of an expression.

    Raises:
        ValueError: it is computed.
    """

    class Named(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return names.get(node.id, node)

    return ast.literal_eval(Named().visit(ast.parse(ast.unparse(node), mode="eval")).body)


def leave(launch: Launch, node: ast.AST, why: str) -> None:
    """List source that was not read: its text, cut short, and its line."""
    text = " ".join(ast.unparse(node).split())
    launch.leave(text if len(text) < 60 else f"{text[:57]}...", "", getattr(node, "lineno", None), why)
