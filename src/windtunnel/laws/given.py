"""Reading what a law is asked: numbers with K, M, B and T, names and lists; which question they ask."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from windtunnel.errors import BadInput, Problem, nearest_name
from windtunnel.laws.records import Quantity, Question, Values

_COUNTS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([KMBT]?)")


def read(
    law: str, quantities: Mapping[str, Quantity], questions: Sequence[Question], given: Mapping[str, Any]
) -> tuple[Question, Values]:
    """The question that is asked, and its quantities as numbers with defaults filled in.

    Raises:
        BadInput: all that is wrong with what is given.
    """
    problems = [
        Problem(name, f"{law} knows no such quantity", value, nearest_name(name, quantities))
        for name, value in given.items()
        if name not in quantities
    ]
    values: Values = {}
    for name, value in given.items():
        if name in quantities:
            rule = _read_one(quantities[name], value, values, name)
            if rule:
                problems.append(Problem(name, rule, value))
    if problems:
        raise BadInput(problems)
    question = _asked(law, questions, set(given))
    for name in question.may:
        if name not in values:
            values[name] = quantities[name].default
    return question, {name: values[name] for name in (*question.needs, *question.may)}


def asks(questions: Sequence[Question]) -> str:
    """Questions in a line: `loss (parameters, tokens), optimum (flop)`."""
    return ", ".join(f"{one.id} ({', '.join(one.needs)})" for one in questions)


def _asked(law: str, questions: Sequence[Question], names: set[str]) -> Question:
    fitting = [one for one in questions if set(one.needs) <= names <= {*one.needs, *one.may}]
    if fitting:
        return fitting[0]
    open_ones = [one for one in questions if names <= {*one.needs, *one.may}]
    if len(open_ones) == 1:
        missing = [name for name in open_ones[0].needs if name not in names]
        rule = f"is missing: {open_ones[0].id} needs {', '.join(open_ones[0].needs)}"
        raise BadInput(Problem(name, rule) for name in missing)
    raise BadInput(Problem(law, f"{', '.join(sorted(names)) or 'nothing'} asks nothing; it answers {asks(questions)}"))


def _read_one(one: Quantity, value: Any, into: Values, name: str) -> str:
    """Reads one value into `into`; returns the rule that it breaks, or nothing."""
    if one.choices:
        into[name] = str(value)
        return "" if str(value) in one.choices else f"must be one of {', '.join(one.choices)}"
    parts = _parts(value) if one.many else [value]
    numbers = [number(part) for part in parts]
    if not numbers or any(x is None for x in numbers):
        return "must be numbers with commas between them" if one.many else "must be a number such as 7e9 or 7B"
    read_ones = [x for x in numbers if x is not None]
    into[name] = tuple(read_ones) if one.many else read_ones[0]
    if any(not one.least <= x <= one.most for x in read_ones):
        return f"must be {_possible(one)}"
    return "must be a whole number" if one.whole and any(x != int(x) for x in read_ones) else ""


def _parts(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return list(value) if isinstance(value, list | tuple) else [value]


def number(value: Any) -> float | None:
    """A number, or text such as `7e9`, `7B`, `1.4T`; None where it is neither or not finite."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    found = _NUMBER.fullmatch(str(value).strip())
    if found is None:
        return None
    read_one = float(found[1]) * _COUNTS[found[2]]
    return read_one if math.isfinite(read_one) else None


def _possible(one: Quantity) -> str:
    if one.most == math.inf:
        return f"at least {one.least:g}"
    return f"at most {one.most:g}" if one.least == -math.inf else f"{one.least:g} to {one.most:g}"
