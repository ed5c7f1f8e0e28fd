"""Sites of the product that can be damaged, and the operators that damage them.

A site is a node of a file's syntax tree and one edit of it. Edits keep the syntax right. Strings are never edited, so
ids, keys, messages and docstrings stay; nor are annotations, decorators and the arguments of exceptions.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

Edit = tuple[ast.AST, Callable[[], None]]
"""The node whose line is damaged, and what edits the tree in place."""

BORDERS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
EXTREMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum"}
WITHOUT_EFFECT = frozenset(
    "strict frozen slots kw_only eq repr compare maxsize ensure_ascii encoding check copy description title "
    "examples help stacklevel dtype flush".split()
)
"""Keyword arguments whose loss or change alters no result, or only texts."""
MESSAGES = frozenset("warn echo debug info __repr__ __str__".split())


@dataclass(frozen=True)
class Site:
    """One possible damage.

    Attributes:
        file: path below the package's folder.
        unit: qualified name of the outermost function or method, empty at module or class level.
        segment: ordinal of the straight run of statements inside the unit, -1 outside units and in defaults.
        line: line of the damaged node.
        node: ordinal of the node in `ast.walk` of the file.
        operator: name of the operator.
        variant: ordinal among the operator's edits of this node.
    """

    file: str
    unit: str
    segment: int
    line: int
    node: int
    operator: str
    variant: int


# -- operators


def comparison(node: ast.AST) -> Iterator[Edit]:
    """Swap a border with its open or closed neighbour, equal with unequal, `is` and `in` with their negations."""
    pairs = {**BORDERS, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            to = pairs[type(operator)]
            yield node, lambda place=place, to=to: node.ops.__setitem__(place, to())


def arithmetic(node: ast.AST) -> Iterator[Edit]:
    """Swap plus with minus and times with divided by."""
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in ARITHMETIC and not _of_texts(node):
        yield node, lambda: setattr(node, "op", ARITHMETIC[type(node.op)]())


def extreme(node: ast.AST) -> Iterator[Edit]:
    """Swap minimum with maximum."""
    if isinstance(node, ast.Call):
        function = node.func
        if isinstance(function, ast.Name) and function.id in EXTREMES:
            yield node, lambda: setattr(function, "id", EXTREMES[function.id])
        elif isinstance(function, ast.Attribute) and function.attr in EXTREMES:
            yield node, lambda: setattr(function, "attr", EXTREMES[function.attr])


def constant(node: ast.AST) -> Iterator[Edit]:
    """One more for an integer, twice a float, the other truth value; defaults of parameters and fields included."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            yield node, lambda: setattr(node, "value", not value)
        elif isinstance(value, int):
            yield node, lambda: setattr(node, "value", value + 1)
        elif isinstance(value, float):
            yield node, lambda: setattr(node, "value", 2 * value if value else 1.0)


def negation(node: ast.AST) -> Iterator[Edit]:
    """Drop a `not`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, lambda: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))


def junction(node: ast.AST) -> Iterator[Edit]:
    """Swap `and` with `or`."""
    if isinstance(node, ast.BoolOp):
        yield node, lambda: setattr(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())


def keyword(node: ast.AST) -> Iterator[Edit]:
    """Remove a keyword argument."""
    if isinstance(node, ast.Call):
        for place, argument in enumerate(node.keywords):
            if argument.arg is not None and argument.arg not in WITHOUT_EFFECT:
                yield argument.value, lambda place=place: node.keywords.pop(place)


def neighbours(node: ast.AST) -> Iterator[Edit]:
    """Swap two neighbouring arguments, values of keyword arguments or values of a dictionary.

    Not those of a minimum or maximum, which are the same either way round.
    """
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name not in EXTREMES:
            yield from _swaps(node.args)
        for one, other in pairwise(node.keywords):
            named = one.arg not in WITHOUT_EFFECT and other.arg not in WITHOUT_EFFECT
            if named and one.arg and other.arg and _differ(one.value, other.value):
                yield one.value, lambda one=one, other=other: _swap_values(one, other)
    elif isinstance(node, ast.Dict):
        yield from _swaps(node.values, [key is not None for key in node.keys])


def statement(node: ast.AST) -> Iterator[Edit]:
    """Remove an augmented assignment or a call that stands as a statement."""
    for name in ("body", "orelse", "finalbody"):
        inside = getattr(node, name, None)
        for place, found in enumerate(inside if isinstance(inside, list) else []):
            called = isinstance(found, ast.Expr) and isinstance(found.value, ast.Call) and not _is_message(found.value)
            if called or isinstance(found, ast.AugAssign):
                yield found, lambda inside=inside, place=place, at=found: inside.__setitem__(place, _pass(at))


def returned(node: ast.AST) -> Iterator[Edit]:
    """Return what the next `return` of the function returns."""
    if isinstance(node, ast.FunctionDef):
        found = [inner for inner in ast.walk(node) if isinstance(inner, ast.Return) and inner.value is not None]
        for one, other in pairwise(found):
            if one.value and other.value and _differ(one.value, other.value):
                yield one, lambda one=one, other=other: setattr(one, "value", other.value)


def sort_key(node: ast.AST) -> Iterator[Edit]:
    """Sort the other way round."""
    if isinstance(node, ast.Call) and not any(argument.arg == "reverse" for argument in node.keywords):
        function = node.func
        name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        if name == "sorted" or (name == "sort" and any(argument.arg == "key" for argument in node.keywords)):
            yield node, lambda: node.keywords.append(ast.keyword("reverse", ast.Constant(True)))


OPERATORS: dict[str, Callable[[ast.AST], Iterator[Edit]]] = {
    operator.__name__: operator
    for operator in (
        arithmetic,
        comparison,
        constant,
        extreme,
        junction,
        keyword,
        negation,
        neighbours,
        returned,
        sort_key,
        statement,
    )
}


# -- units and segments


def units(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Outermost functions and methods of a file by qualified name."""

    def inside(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for found in body:
            if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + found.name, found
            elif isinstance(found, ast.ClassDef):
                yield from inside(found.body, f"{prefix}{found.name}.")
            elif isinstance(found, ast.If | ast.Try):
                yield from inside(found.body + found.orelse, prefix)

    yield from inside(tree.body, "")


def statement_lists(unit: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements of a unit, outer before inner, those of nested functions included."""
    for node in ast.walk(unit):
        if isinstance(node, ast.ClassDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            found = getattr(node, name, None)
            if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
                yield found


def segments(unit: ast.AST) -> Iterator[tuple[int, list[ast.stmt], int]]:
    """Straight runs of statements of a unit: ordinal, the list that holds it, place of its first statement."""
    ordinal = 0
    for statements in statement_lists(unit):
        starts = True
        for place, found in enumerate(statements):
            if starts and not (place == 0 and is_docstring(found)):
                yield ordinal, statements, place
                ordinal += 1
                starts = False
            starts = starts or hasattr(found, "body")


def segment_of_nodes(unit: ast.AST) -> dict[ast.AST, int]:
    """Node → ordinal of the segment that executes it, for every node below a unit."""
    found: dict[ast.AST, int] = {}
    starts: dict[int, int] = {id(statements[place]): ordinal for ordinal, statements, place in segments(unit)}
    for statements in statement_lists(unit):  # outer first, so that inner ones overwrite
        current = -1
        for each in statements:
            current = starts.get(id(each), current)
            for node in ast.walk(each):
                found[node] = current
    return found


def is_docstring(found: ast.stmt) -> bool:
    """Whether a statement is a text that stands alone."""
    return isinstance(found, ast.Expr) and isinstance(found.value, ast.Constant) and isinstance(found.value.value, str)


# -- sites and their application


def sites(file: str, source: str) -> Iterator[Site]:
    """All sites of a file, in the order of its syntax tree."""
    tree = ast.parse(source)
    unit_of: dict[ast.AST, tuple[str, int]] = {}
    for name, unit in units(tree):
        for node, segment in segment_of_nodes(unit).items():
            unit_of[node] = (name, segment)
        for node in ast.walk(unit.args):
            unit_of[node] = (name, -1)
    left_out = _left_out(tree)
    for ordinal, node in enumerate(ast.walk(tree)):
        for operator, edits in OPERATORS.items():
            for variant, (at, _) in enumerate(edits(node)):
                if at not in left_out and node not in left_out:
                    name, segment = unit_of.get(at, ("", -1))
                    yield Site(file, name, segment, at.lineno, ordinal, operator, variant)  # type: ignore[attr-defined]


def apply(tree: ast.Module, site: Site) -> tuple[str, str]:
    """Damage a tree in place; returns the statement's text before and after."""
    node = next(node for ordinal, node in enumerate(ast.walk(tree)) if ordinal == site.node)
    at, edit = list(OPERATORS[site.operator](node))[site.variant]
    shown = _statement_around(tree, at)
    before = ast.unparse(_header(shown))
    inside = next((found for found in ast.walk(tree) if _holds(found, shown)), None)
    edit()
    ast.fix_missing_locations(tree)
    gone = inside is not None and not _holds(inside, shown)
    return before, "pass" if gone else ast.unparse(_header(shown))


def _left_out(tree: ast.Module) -> set[ast.AST]:
    """Nodes that are never damaged: texts of errors, annotations, decorators, values without effect."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            roots += [*node.decorator_list, node.returns]
            roots += [node] if node.name in MESSAGES else []
        elif isinstance(node, ast.ClassDef):
            roots += node.decorator_list
        elif isinstance(node, ast.arg):
            roots.append(node.annotation)
        elif isinstance(node, ast.AnnAssign):
            roots.append(node.annotation)
        elif isinstance(node, ast.Raise):
            roots += [node.exc, node.cause]
        elif isinstance(node, ast.Assert):
            roots.append(node.msg)
        elif isinstance(node, ast.Call) and _is_message(node):
            roots.append(node)
        elif isinstance(node, ast.keyword) and node.arg in WITHOUT_EFFECT:
            roots.append(node)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            roots.append(node.test)
        elif isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            roots.append(node)
    return {inner for root in roots if root is not None for inner in ast.walk(root)}


def _is_message(call: ast.Call) -> bool:
    """Whether a call only says something."""
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    return name in MESSAGES or name.endswith(("Error", "Problem"))


def _of_texts(node: ast.BinOp | ast.AugAssign) -> bool:
    """Whether an operand is visibly a text or a list, so that minus would only be a type error."""
    operands = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
    texts = ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp | ast.Dict
    return any(isinstance(each, texts) or _is_text(each) for each in operands)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _differ(one: ast.AST, other: ast.AST) -> bool:
    return not isinstance(other, ast.Starred) and not isinstance(one, ast.Starred) and ast.dump(one) != ast.dump(other)


def _swaps(values: list[ast.expr], open_: list[bool] | None = None) -> Iterator[Edit]:
    """Edits that swap neighbours of a list."""

    def swap(place: int) -> None:
        values[place], values[place + 1] = values[place + 1], values[place]

    for place in range(len(values) - 1):
        if (open_ is None or (open_[place] and open_[place + 1])) and _differ(values[place], values[place + 1]):
            if not (_is_text(values[place]) and _is_text(values[place + 1])):
                yield values[place], lambda place=place: swap(place)


def _swap_values(one: ast.keyword, other: ast.keyword) -> None:
    one.value, other.value = other.value, one.value


def _pass(at: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), at)


def _statement_around(tree: ast.Module, at: ast.AST) -> ast.AST:
    """The innermost statement (or parameter list) around a node."""
    around: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and any(inner is at for inner in ast.walk(node)):
            around = node  # breadth first: inner ones come later
    return around


def _header(found: ast.AST) -> ast.AST:
    """A statement without the statements inside it."""
    if not hasattr(found, "body") or isinstance(found, ast.Module | ast.Lambda | ast.IfExp):
        return found
    fields = {name: getattr(found, name) for name in found._fields if hasattr(found, name)}
    fields |= {name: [] for name in ("orelse", "finalbody", "handlers", "decorator_list") if name in fields}
    return type(found)(**{**fields, "body": [ast.Pass()]}, lineno=getattr(found, "lineno", 0))


def _holds(node: ast.AST, inner: ast.AST) -> bool:
    return any(child is inner for child in ast.iter_child_nodes(node))
