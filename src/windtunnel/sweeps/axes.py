"""Axes of a sweep: which fields vary, over which values, together or against each other.

```
plan.tp=1,2,4,8          values
cluster.nodes=8..512:x2  from 8 by factors of two, up to 512
plan.mbs=1..9:+2         from 1 in steps of two, up to 9
serving.rate=0.5..8:9    nine values by equal factors, the ends included
plan.recompute=[none, [full, 4]]   a YAML list, where values hold commas
```
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.scenarios.yaml_text import parse

_RANGE = re.compile(r"^\s*(?P<low>[-+.\deE]+)\s*\.\.\s*(?P<high>[-+.\deE]+)\s*(?::\s*(?P<step>[x+]?[\d.eE+-]+))?\s*$")
MOST_VALUES = 1_000_000
"""Cells of a sweep at most: what a store answers within a second."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One field, or several that vary together, and their values."""

    fields: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    """One tuple a point of the axis, one value a field."""


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of values."""

    settings: tuple[tuple[str, Any], ...]
    """(field, value), in the order of the axes."""


def read_axes(vary: Sequence[str], together: Sequence[str]) -> tuple[Axis, ...]:
    """Axes as the command line writes them.

    Args:
        vary: `field=values`, each an axis of its own.
        together: `field=values,field=values` with as many values each: one axis.

    Raises:
        BadInput: everything that cannot be read, at once.
    """
    problems = ProblemList()
    axes: list[Axis] = []
    for text in vary:
        field, values = _read(text, "--vary", problems)
        axes.append(Axis((field,), tuple((value,) for value in values)))
        if twice := _told_twice(axes[-1].values):
            problems.add("--vary", text, f"has the value {twice} twice")
    for text in together:
        parts = [_read(part, "--zip", problems) for part in _split_fields(text)]
        lengths = {len(values) for _, values in parts}
        if len(lengths) > 1:
            told = ", ".join(f"{field} has {len(values)}" for field, values in parts)
            problems.add("--zip", text, f"needs as many values for each field: {told}")
        elif len(parts) < 2:
            problems.add("--zip", text, "needs two fields or more: a=1,2 b=3,4")
        else:
            axes.append(Axis(tuple(f for f, _ in parts), tuple(zip(*(v for _, v in parts), strict=True))))
            if twice := _told_twice(axes[-1].values):
                problems.add("--zip", text, f"has the values {twice} twice")
    named = [field for axis in axes for field in axis.fields]
    for field in sorted({field for field in named if named.count(field) > 1}):
        problems.add("--vary", field, "varies twice")
    problems.raise_if_any()
    if cells_of(axes) > MOST_VALUES:
        rule = f"is {cells_of(axes):,} combinations; at most {MOST_VALUES:,} are stored in one sweep"
        raise BadInput(Problem("--vary", rule, " × ".join(str(len(axis.values)) for axis in axes)))
    return tuple(axes)


def cells_of(axes: Sequence[Axis]) -> int:
    """Combinations of all axes."""
    return math.prod(len(axis.values) for axis in axes)


def points_of(axes: Sequence[Axis]) -> Iterator[Point]:
    """Every combination, the last axis fastest."""
    for chosen in itertools.product(*(axis.values for axis in axes)):
        yield Point(
            tuple(
                (field, value)
                for axis, values in zip(axes, chosen, strict=True)
                for field, value in zip(axis.fields, values, strict=True)
            )
        )


def _split_fields(text: str) -> list[str]:
    """`a=1,2 b=3,4`, `a=1,2;b=3,4` or `a=1,2,b=3,4` → one text a field."""
    if ";" in text:
        return [part.strip() for part in re.split(r";\s*(?=[A-Za-z_][\w.]*\s*=)", text) if part.strip()]
    starts = [m.start(1) for m in re.finditer(r"(?:^|[,\s])\s*([A-Za-z_][\w.\[\]-]*)\s*=", text)]
    ends = [*starts[1:], len(text)]
    return [text[a:b].strip().rstrip(",").strip() for a, b in zip(starts, ends, strict=True)]


def _read(text: str, option: str, problems: ProblemList) -> tuple[str, tuple[Any, ...]]:
    field, given, written = text.partition("=")
    field = field.strip()
    if not given or not field or not written.strip():
        problems.add(option, text, "must be written field=values, such as plan.tp=1,2,4 or cluster.nodes=8..64:x2")
        return field, ()
    match = _RANGE.match(written)
    if match:
        return field, _range(match, option, text, problems)
    parsed = parse(written if written.lstrip().startswith("[") else f"[{written}]")
    if parsed.problems:
        problems.add(option, text, "values must be separated by commas, or be a YAML list")
        return field, ()
    values = tuple(parsed.data) if isinstance(parsed.data, list) else ()
    if not values:
        problems.add(option, text, "has no values")
    return field, values


def _told_twice(points: Sequence[tuple[Any, ...]]) -> str:
    """The first point that stands twice among points, in words; empty where none does. 1, 1.0 and true differ."""
    seen: set[str] = set()
    for point in points:
        if (key := repr(point)) in seen:
            return ", ".join(str(value) for value in point)
        seen.add(key)
    return ""


def _range(match: re.Match[str], option: str, text: str, problems: ProblemList) -> tuple[Any, ...]:
    try:
        low, high = float(match["low"]), float(match["high"])
    except ValueError:
        problems.add(option, text, "the ends of a range must be numbers")
        return ()
    step = match["step"]
    if not low < high:
        problems.add(option, text, "the first end of a range must be below the second")
        return ()
    if step is None:
        problems.add(option, text, "a range needs its step: 8..512:x2 (factors), 1..9:+2 (sums) or 0.5..8:9 (values)")
        return ()
    kind, number = (step[0], float(step[1:])) if step[0] in "x+" else ("n", float(step))
    if kind == "x" and not (number > 1 and low > 0):
        problems.add(option, text, "factors must be above 1, from an end above 0")
        return ()
    if kind == "+" and not number > 0:
        problems.add(option, text, "the step must be above 0")
        return ()
    if kind == "n" and not (number >= 2 and number == int(number)):
        problems.add(option, text, "the number of values must be 2 or more")
        return ()
    count = {
        "x": lambda: int(math.log(high / low) / math.log(number) + 1e-9) + 1,
        "+": lambda: int((high - low) / number + 1e-9) + 1,
        "n": lambda: int(number),
    }[kind]()
    if count > MOST_VALUES:
        problems.add(option, text, f"has {count:,} values; at most {MOST_VALUES:,}")
        return ()
    if kind == "x":
        values = [low * number**i for i in range(count)]
    elif kind == "+":
        values = [low + number * i for i in range(count)]
    elif low > 0:
        values = [low * (high / low) ** (i / (count - 1)) for i in range(count)]
    else:
        values = [low + (high - low) * i / (count - 1) for i in range(count)]
    whole = "." not in match["low"] + match["high"] and all(abs(v - round(v)) < 1e-9 * max(1, abs(v)) for v in values)
    return tuple(round(v) if whole else float(f"{v:.12g}") for v in values)
