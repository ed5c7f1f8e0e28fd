"""Pydantic's complaints in the words of this package: the rule, and the nearest name that may have been meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from windtunnel.errors import UNSET, Problem, nearest_name, shown
from windtunnel.scenarios.union_branches import Place, place_of, value_at
from windtunnel.specs.base import Inconsistent
from windtunnel.specs.spellings import SPELLINGS, not_simulated, spelling

UNKNOWN_FIELD = "unknown field"
_SECTIONS = ("plan", "training", "cluster", "serving", "run", "search")
"""Sections whose fields people state without naming them, the most usual first."""


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
    near = spelling(c.name, known) or (_below(c.owner, c.name) if c.path == c.name else _inside(c) or _elsewhere(c))
    return Problem(c.path, UNKNOWN_FIELD, c.value, near or nearest_name(c.name, known))


def path_of(name: str) -> str | None:
    """The path of a scenario's field by its last part, or by what other programs call it; None where none has it."""
    from windtunnel.specs.scenario import Scenario

    return _below(Scenario, name) or _below(Scenario, SPELLINGS.get(name, ""))


def _below(owner: type[BaseModel] | None, name: str) -> str | None:
    """The path of a field that stands in a section, where it was written without one: `plan.tp` for `tp`."""
    for section in _SECTIONS:
        inner = (owner.model_fields if owner else {}).get(section)
        record = next((one for one in _records(inner.annotation) if name in one.model_fields), None) if inner else None
        if record is not None:
            return f"{section}.{name}"
    return None


def _inside(c: _Complaint) -> str | None:
    """The path of a field one section further in than where it was written: `search.limits.memory_fraction`."""
    for section, field in (c.owner.model_fields if c.owner else {}).items():
        for record in _records(field.annotation):
            if name := c.name if c.name in record.model_fields else spelling(c.name, record.model_fields):
                return f"{c.path.removesuffix(c.name)}{section}.{name}"
    return None


def _elsewhere(c: _Complaint) -> str | None:
    """The path of a field that stands in another section of a scenario: `plan.tp` for `training.tp`."""
    return path_of(c.name) if c.path.partition(".")[0] in _SECTIONS else None


def _records(annotation: Any) -> Iterator[type[BaseModel]]:
    for one in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(one, type) and issubclass(one, BaseModel):
            yield one


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
    return Problem(c.path, "must be a whole number", c.value)


def _not_a_list(c: _Complaint) -> Problem:
    example = f", such as [{c.value}]" if type(c.value) in (str, int, float) else ""
    return Problem(c.path, f"must be a list{example}", c.value)


def _not_text(c: _Complaint) -> Problem:
    example = '; a number in quotes: "0.10"' if isinstance(c.value, int | float) else ""
    return Problem(c.path, f"must be text{example}", c.value)


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
