"""Pydantic's complaints in the words of this package: the rule, and the nearest name that may have been meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from windtunnel.errors import UNSET, Problem, nearest_name, shown
from windtunnel.scenarios.union_branches import Place, place_of, value_at
from windtunnel.specs.base import Inconsistent
from windtunnel.specs.spellings import not_simulated, spelling


@dataclass(frozen=True, slots=True, kw_only=True)
class _Complaint:
    """What pydantic says of one value."""

    kind: str
    path: str
    owner: type[BaseModel] | None
    """The record that the field belongs to."""
    value: Any
    message: str
    name: str
    """Last part of the location: the field's own name."""
    context: dict[str, Any]
    """What pydantic adds: names that are expected, or the error that was raised."""


def explain(spec: type[BaseModel], data: Any, error: ValidationError) -> list[Problem]:
    """What pydantic found wrong with `data` as a `spec`, one problem each; fields are relative to the record."""
    problems: list[Problem] = []
    seen = set()
    for item in error.errors(include_url=False):
        place = place_of(spec, data, item["loc"])
        if place is None:
            continue
        if _is_inconsistent(item, place):
            problems += _parts(item["ctx"]["error"], place.path)
            continue
        kind = "union" if place.alternatives else item["type"]
        if (place.path, kind) not in seen:
            seen.add((place.path, kind))
            problems.append(_problem(item, place, data))
    return problems


def _is_inconsistent(item: ErrorDetails, place: Place) -> bool:
    """Whether the complaint is one of a record's own check, which has listed its problems one by one."""
    cause = item.get("ctx", {}).get("error")
    return item["type"] == "value_error" and not place.alternatives and isinstance(cause, Inconsistent)


def _parts(cause: Inconsistent, path: str) -> Iterator[Problem]:
    """Problems that a record found among its fields, with their whole paths."""
    for problem in cause.problems:
        yield Problem(f"{path}.{problem.field}" if path else problem.field, problem.rule, problem.value)


def _problem(item: ErrorDetails, place: Place, data: Any) -> Problem:
    """One complaint in our words."""
    if place.alternatives:
        value = value_at(data, place.path)
        but = f", not {shown(value)}" if isinstance(value, bool) else ""
        return Problem(place.path, f"must be {place.alternatives}{but}", value)
    complaint = _Complaint(
        kind=item["type"],
        path=place.path,
        owner=place.owner,
        value=item["input"],
        message=item["msg"],
        name=str(item["loc"][-1]) if item["loc"] else "",
        context=item.get("ctx", {}),
    )
    in_words = _IN_WORDS.get(complaint.kind)
    if in_words is not None:
        return in_words(complaint)
    rule = _RULES.get(complaint.kind) or complaint.message.replace("Input should be", "must be")
    rule = rule.replace("greater than or equal to", "at least").replace("less than or equal to", "at most")
    return Problem(complaint.path, rule, complaint.value)


def _unknown_field(c: _Complaint) -> Problem:
    """A field that its record does not have: one that is known not to be simulated, or a name that is misspelt."""
    why = not_simulated(c.path, c.name)
    if why is not None:
        return Problem(c.path, why, c.value)
    known = c.owner.model_fields if c.owner else ()
    return Problem(c.path, "unknown field", c.value, spelling(c.name, known) or nearest_name(c.name, known))


def _missing(c: _Complaint) -> Problem:
    return Problem(c.path, "is required")


def _not_among(c: _Complaint) -> Problem:
    """A value that is none of a few names."""
    expected, value = str(c.context["expected"]), str(c.value)
    allowed = [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]
    return Problem(c.path, f"must be {expected}", c.value, spelling(value, allowed) or nearest_name(value, allowed))


def _refused(c: _Complaint) -> Problem:
    """A value that a check of ours refuses, whose message may end in the name that was meant."""
    rule, _, hint = str(c.context["error"]).partition("; did you mean '")
    value = UNSET if isinstance(c.value, dict | BaseModel) else c.value
    return Problem(c.path, rule, value, hint.removesuffix("'?") or None)


def _not_whole(c: _Complaint) -> Problem:
    return Problem(c.path, "must be a whole number" + _thousands(c.value), c.value)


def _not_a_list(c: _Complaint) -> Problem:
    example = f", such as [{c.value}]" if type(c.value) in (str, int, float) else ""
    return Problem(c.path, f"must be a list{example}", c.value)


def _not_text(c: _Complaint) -> Problem:
    example = '; a number in quotes: "0.10"' if isinstance(c.value, int | float) else ""
    return Problem(c.path, f"must be text{example}", c.value)


def _thousands(value: Any) -> str:
    """What `8k` may have meant."""
    found = re.fullmatch(r"\s*(\d+)\s*([kKmM])\s*", value) if isinstance(value, str) else None
    if found is None:
        return ""
    power = 1 if found[2] in "kK" else 2
    return f", such as {int(found[1]) * 1024**power} or {int(found[1]) * 1000**power}"


_IN_WORDS: dict[str, Callable[[_Complaint], Problem]] = {
    "extra_forbidden": _unknown_field,
    "missing": _missing,
    "literal_error": _not_among,
    "value_error": _refused,
    "int_parsing": _not_whole,
    "int_type": _not_whole,
    "int_from_float": _not_whole,
    "int_parsing_size": lambda c: Problem(c.path, "must be a whole number of at most 18 digits", c.value),
    "tuple_type": _not_a_list,
    "list_type": _not_a_list,
    "string_type": _not_text,
}
"""Kind of a complaint → what makes a problem of it."""

_RULES = {
    "dict_type": "must be a mapping of fields to values",
    "model_type": "must be a mapping of fields to values",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}
"""Kind of a complaint → its rule, where nothing of the value stands in it."""
