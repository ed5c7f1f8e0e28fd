"""Every field of a scenario from its JSON schema, sound values for it, and values of every wrong type."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import fuzz_inputs as inputs
import yaml

Place = tuple[str | int, ...]
UNKNOWN = "zzz_unknown"
"""A field that no record has: where it is accepted, something in a scenario is not looked at."""


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field that a scenario may have."""

    path: Place
    schema: dict[str, Any]


def root() -> dict[str, Any]:
    """The schema of scenarios."""
    from windtunnel.specs.schema import scenario_schema

    return _schema(scenario_schema)


@cache
def _schema(make: Any) -> dict[str, Any]:
    return make()  # type: ignore[no-any-return]


def forms(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """What a schema allows, references followed and alternatives listed."""
    if "$ref" in schema:
        return forms(root()["$defs"][schema["$ref"].rsplit("/", 1)[-1]])
    inner = schema.get("anyOf") or schema.get("oneOf")
    return [form for one in inner for form in forms(one)] if inner else [schema]


@cache
def fields() -> list[FieldOf]:
    """Every field, at the first entry of each list and under a name in each mapping of the user's own names."""
    found = {field.path: field for field in _below(root(), (), ())}
    return list(found.values())


def _below(schema: dict[str, Any], path: Place, above: tuple[int, ...]) -> Iterator[FieldOf]:
    for form in forms(schema):
        if id(form) in above:
            continue
        inner: dict[str | int, Any] = dict(form.get("properties", {}))
        if isinstance(form.get("additionalProperties"), dict):
            inner["x"] = form["additionalProperties"]
        if isinstance(form.get("items"), dict):
            inner[0] = form["items"]
        inner |= dict(enumerate(form.get("prefixItems", [])))
        for name, one in inner.items():
            yield FieldOf((*path, name), one)
            yield from _below(one, (*path, name), (*above, id(form)))


@cache
def _known() -> dict[Place, list[Any]]:
    """Values that examples state for each field, indices and names of the user's own left out."""
    found: dict[Place, list[Any]] = {}

    def note(value: Any, path: Place) -> None:
        if path:
            found.setdefault(path, []).append(value)
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value[:3]):
            if isinstance(inner, dict | list):
                note(inner, (*path, key if isinstance(key, str) else 0))
            else:
                found.setdefault((*path, key if isinstance(key, str) else 0), []).append(inner)

    for file in sorted(inputs.EXAMPLES.rglob("*.yaml")):
        data = yaml.safe_load(file.read_text("utf-8"))
        if isinstance(data, dict):
            note(data, ())
    for kind in ("train", "serve", "run", "cluster", "learn", "reason", "search"):
        for data in inputs.scenarios(kind):
            note(data, ())
    return found


def sound(schema: dict[str, Any], path: Place, draw: Random) -> Any:
    """A value that the field may have: one of the examples, or the least that its schema allows."""
    known = _known().get(path)
    if known and draw.random() < 0.8:
        return copy.deepcopy(draw.choice(known))
    form = draw.choice(forms(schema))
    if "const" in form or "enum" in form:
        return form.get("const", draw.choice(form.get("enum", [None])))
    kind = form.get("type")
    if kind in ("integer", "number"):
        least, most = form.get("minimum", form.get("exclusiveMinimum", 0)), form.get("maximum", 10**6)
        near = draw.choice([1, 2, 0.5, least, least + 1, most])
        return int(near) if kind == "integer" else near
    if kind == "array":
        return [sound(form.get("items", {"type": "string"}), (*path, 0), draw)] * max(1, form.get("minItems", 1))
    if kind == "object":
        own = form.get("properties", {})
        return {name: sound(own[name], (*path, name), draw) for name in form.get("required", ())}
    return {"boolean": True, "null": None}.get(str(kind), "x")


def _nested(kind: type, depth: int) -> Any:
    inner: Any = 1
    for _ in range(depth):
        inner = {"a": inner} if kind is dict else [inner]
    return inner


PLAIN: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 1000, 10**6, 10**9, 10**12, 2**31, 2**63, 2**70, -(2**63)),
    *(0.5, 1.5, -0.5, -0.0, 1e-30, 1e12, 1e30, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")),
    *("", " ", "x", "8", "-3", "1.5", "1e400", "nan", "inf", "auto", "none", "null", "true", "full", "[", "0"),
    *("80 GB", "8 GiB 8", "10 Mb/s", "-3 TB/s", "0 GB", "1e400 GB", "12 parsecs", "2 h 30", "1 s 1", "50 ms", "3 %"),
    *("2023-01-01", "2023-01-01T00:00:00Z", "10:30:00", "1_000", "0x1f", "0o17", "1,000", "..", "../..", "/dev/zero"),
    *("é" * 300, "\u202e模型", "\x00", "\ud800", "{x}", "%s", "${X}", "$(id)", "a.b", "a\nb", "x" * 5000, "0.10.0"),
    *("\x1b]0;x\x07\x9b31m", "[/] [red]x", "a/$(id)", '"$(id)"'),
    *(
        [],
        [[]],
        [None],
        [1],
        [0],
        [-1],
        [1, 2, 3, 4],
        ["x"],
        ["x", "x"],
        [float("nan")],
        [[1, 2], [3]],
        [{}],
        [{"a": 1}],
    ),
    *({}, {"a": 1}, {"": None}, {"x": {}}, {"x": []}, {"x": {"y": {"z": 1}}}, {"\ud800": 1}, {"id": {}}, {"0": 1}),
    *({"mean": 10}, {"mean": 1e12}, {"mean": -1, "cv": 1e9}, {"min": 5, "max": 1}, {UNKNOWN: 1}),
    *(_nested(list, 5), _nested(dict, 5), _nested(list, 30), _nested(dict, 30), _nested(list, 200), _nested(dict, 200)),
    *(["x"] * 300, [1] * 300, {str(i): i for i in range(300)}),
)
"""Values of every type; for a given field most are wrong."""
FROM_PYTHON = tuple(
    {"__python__": name}
    for name in ("tuple", "set", "bytes", "object", "date", "datetime", "decimal", "fraction", "numpy", "array", "path",
                 "function", "itself", "key_int", "key_tuple", "key_none", "complex", "generator", "enum", "intstr")
)  # fmt: skip
"""Values that only Python can state; `made` makes them."""


def made(value: Any) -> Any:
    """A value with what only Python can state in the place of its name."""
    if isinstance(value, list):
        return [made(one) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"__python__"} or value not in FROM_PYTHON:
        return {key: made(one) for key, one in value.items()}
    import datetime
    import decimal
    import enum
    import fractions
    import pathlib

    import numpy as np

    itself: list[Any] = []
    itself.append(itself)
    return {
        "tuple": (1, 2), "set": {1, 2}, "bytes": b"8", "object": object(), "date": datetime.date(2023, 1, 1),
        "datetime": datetime.datetime(2023, 1, 1), "decimal": decimal.Decimal("1.5"), "itself": itself,
        "fraction": fractions.Fraction(1, 3), "numpy": np.float64(2.0), "array": np.array([1, 2]),
        "path": pathlib.Path("x"), "function": made,
        "key_int": {1: 2}, "key_tuple": {(1, 2): 3}, "key_none": {None: 1}, "complex": 1 + 2j,
        "generator": (i for i in range(2)), "enum": enum.Enum("E", "a").a, "intstr": type("T", (str,), {})("x"),  # type: ignore[attr-defined]
    }[value["__python__"]]  # fmt: skip


def wrong(field: FieldOf, draw: Random, *, python: bool = False) -> Any:
    """A value that the field can rarely have: of another type, or beside what its own type allows."""
    roll = draw.random()
    if python and roll < 0.3:
        return copy.deepcopy(draw.choice(FROM_PYTHON))
    form = draw.choice(forms(field.schema))
    ends = [form[name] for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if name in form]
    if ends and roll < 0.55:
        end = draw.choice(ends)
        return draw.choice(
            [end, end + 1, end - 1, end * 2, float(end), str(end), [end], -end, end / 2, end / 1e3, end / 1e6]
        )
    if roll < 0.7:
        near = sound(field.schema, field.path, draw)
        return draw.choice(
            [near, [near], [near, near], {"x": near}, {str(near): near}, str(near), [near] * 200, f"{near}x"]
        )
    return copy.deepcopy(draw.choice(PLAIN))


def put(data: Any, path: Place, value: Any, draw: Random) -> None:
    """Put a value at a path; what the path needs is made sound."""
    target, schema = data, root()
    for at, (part, after) in enumerate(itertools.pairwise(path), 1):
        schema = next((f for f in (_inner(form, part) for form in forms(schema)) if f is not None), {})
        kind: type = list if isinstance(after, int) else dict
        there = _get(target, part)
        if not isinstance(there, kind) or (kind is list and not there):
            for _ in range(8):
                there = sound(schema, path[:at], draw)
                if isinstance(there, kind) and (there or kind is dict):
                    break
            else:
                there = [{}] if kind is list else {}
            _set(target, part, there)
        target = _get(target, part)
    _set(target, path[-1], value)


def _inner(form: dict[str, Any], part: str | int) -> dict[str, Any] | None:
    own = form.get("properties", {})
    other = form.get("items") if isinstance(part, int) else own.get(part, form.get("additionalProperties"))
    return other if isinstance(other, dict) else None


def _get(target: Any, part: str | int) -> Any:
    if isinstance(target, dict):
        return target.get(str(part))
    return target[part] if isinstance(target, list) and isinstance(part, int) and part < len(target) else None


def _set(target: Any, part: str | int, value: Any) -> None:
    if isinstance(target, dict):
        target[str(part)] = value
    elif isinstance(part, int) and part < len(target):
        target[part] = value
    else:
        target.append(value)
