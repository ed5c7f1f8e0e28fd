"""Where a complaint of pydantic belongs: it names branches of unions, and only the one that was meant counts."""

from __future__ import annotations

import re
import types
import typing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Place:
    """The field that a complaint is about."""

    path: str
    """Dotted path without branch labels."""
    owner: type[BaseModel] | None = None
    """The record that the last part of the path belongs to."""
    alternatives: str = ""
    """Where no branch of a union fits the value, what would: "a name or a mapping"."""


def place_of(spec: type[BaseModel], value: Any, loc: tuple[int | str, ...]) -> Place | None:
    """The field of a `spec` that pydantic's `loc` is about; None for a complaint about a branch that was not meant.

    `loc` names a union branch after each field that has several; only the branch the value was written for counts.
    """
    path: list[str] = []
    owner: type[BaseModel] | None = None
    annotation: Any = spec
    for part in loc:
        choices = _choices(annotation)
        if len(choices) > 1:
            annotation = _meant(choices, value)
            if annotation is None:
                return Place(".".join(path), owner, " or ".join(dict.fromkeys(_in_words(c) for c in choices)))
            if not _is_label_of(str(part), annotation):
                return None
            continue
        annotation = choices[0]
        if part == "[key]":
            continue
        path.append(str(part))
        owner = annotation if _is_record(annotation) else None
        annotation = _inside(annotation, part)
        value = _entry(value, part)
    return Place(".".join(path), owner)


def value_at(data: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none."""
    for part in path.split("."):
        data = _entry(data, int(part) if isinstance(data, list) and part.isdigit() else part)
    return data


def _entry(value: Any, part: int | str) -> Any:
    try:
        return value[part]
    except (KeyError, IndexError, TypeError):
        return None


def _choices(annotation: Any) -> list[Any]:
    """Members of a union without None; the annotation itself when it is none."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _choices(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return [c for a in typing.get_args(annotation) if a is not type(None) for c in _choices(a)]
    return [annotation]


def _inside(annotation: Any, part: int | str) -> Any:
    """Annotation of a field, entry or item."""
    if _is_record(annotation):
        field = annotation.model_fields.get(str(part))
        return field.annotation if field else Any
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    return arguments[1] if origin is dict else arguments[0] if origin in (tuple, list) else Any


def _meant(choices: list[Any], value: Any) -> Any:
    """The branch of a union that a value was written for; None when that cannot be determined."""
    if isinstance(value, dict):
        records = [c for c in choices if _is_record(c)]
        if records:
            return max(records, key=lambda record: len(value.keys() & record.model_fields.keys()))
        return next((c for c in choices if typing.get_origin(c) is dict), None)
    if isinstance(value, str):
        return str if str in choices else None
    if isinstance(value, list | tuple):
        return next((c for c in choices if _is_list(c)), None)
    number = next((c for c in (int, float) if c in choices), None)
    return number if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_record(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_list(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (tuple, list)


def _is_label_of(label: str, branch: Any) -> bool:
    """Whether a label in a location of pydantic stands for this branch of a union."""
    if typing.get_origin(branch) is dict:
        return label.startswith("dict[")
    if _is_list(branch):
        return label.startswith(("tuple[", "list["))
    name = branch.__name__
    # checks around a branch are named too: `function-before[check(), constrained-int]`
    return re.fullmatch(rf"(.*[-, ])?{re.escape(name)}\]*", label) is not None


def _in_words(branch: Any) -> str:
    if typing.get_origin(branch) is typing.Literal:
        return " or ".join(repr(value) for value in typing.get_args(branch))
    if _is_record(branch) or typing.get_origin(branch) is dict:
        return "a mapping"
    if _is_list(branch):
        return "a list"
    return {str: "a name", int: "a whole number", float: "a number"}.get(branch, str(branch))
