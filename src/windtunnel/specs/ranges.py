"""The range of every number in a scenario: what there is in the world, with a wide margin.

A field states its own range where it has one (`Field(ge=…, le=…)`, `quantity(…, least=…)`); ends that it leaves open
come from here, by its unit or by its name. The JSON schema shows them as `minimum` and `maximum`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

OF_UNIT: Final[dict[str, tuple[float, float]]] = {
    "bytes": (0.0, 1e21),
    "bits": (0.0, 1e22),
    "bytes/s": (0.0, 1e18),
    "bits/s": (0.0, 1e19),
    "flop": (0.0, 1e30),
    "flop/s": (0.0, 1e21),
    "s": (0.0, 1e11),
    "W": (0.0, 1e12),
    "J": (0.0, 1e20),
    "Hz": (0.0, 1e13),
    "1/s": (0.0, 1e15),
    "1": (0.0, 1e24),
}
"""Unit → smallest and largest value in it. The largest: a zettabyte, an exabyte a second, a thousand exaFLOP/s, three
thousand years, a terawatt, ten terahertz; far from where products of several overflow."""

_TYPICAL: Final[dict[str, tuple[str, ...]]] = {
    "bytes": ("GB", "MB", "TB"),
    "bytes/s": ("GB/s", "MB/s"),
    "bits/s": ("Gb/s", "Mb/s"),
    "flop/s": ("TFLOP/s", "PFLOP/s"),
    "W": ("W", "kW"),
    "Hz": ("GHz", "MHz"),
}
"""Units in which people state a quantity; a bare number that is too small may have meant the first that suits."""

_BY_NAME: Final[tuple[tuple[str, tuple[float, float]], ...]] = (
    (r"seed", (0, 2**63 - 1)),
    (r".*parameters.*", (0, 1e18)),
    (r".*(price|cost).*", (0, 1e15)),
    (r".*_(w|watts).*", (0, 1e12)),
    (r".*(?<!_per)_s|.*seconds", (0, 1e11)),
    (r"cv|relative_error", (0, 1e6)),
    (r"value|by_operator|conditions", (-1e24, 1e24)),
)
"""Names of fields → range of their numbers, where they are unlike `_WHOLE` and `_ANY`."""
_WHOLE: Final = (0, 10**12)
"""Counts of layers, elements, tokens, jobs …"""
_ANY: Final = (0.0, 1e15)
"""Shares, weights, factors, rates …"""


def likely_unit(number: float, dimension: str, least: float, factors: dict[str, float]) -> str | None:
    """What a bare number that is too small may have meant: `3.7 TB/s`; None where no usual unit makes it large enough.

    Args:
        number: what was written.
        dimension: of the field.
        least: smallest value of the field.
        factors: how much each unit is.
    """
    if number <= 0:
        return None
    typical = ("TB/s", "GB/s") if dimension == "bytes/s" and least >= 1e6 else _TYPICAL.get(dimension, ())
    units = (u for u in typical if least <= number * factors[u] <= OF_UNIT[dimension][1])
    return next((f"{number:g} {unit}" for unit in units), None)


def with_ranges(schema: Any, name: str) -> Any:
    """A pydantic core schema of a field whose numbers have both ends of their range and refuse true and false."""
    by_name = next((r for text, r in _BY_NAME if re.fullmatch(text, name)), None)
    for number, stated in _numbers(schema, None):
        least, most = stated or by_name or (_WHOLE if number["type"] == "int" else _ANY)
        kind = int if number["type"] == "int" else float
        if "ge" not in number and "gt" not in number:
            number["ge"] = kind(least)
        if "le" not in number and "lt" not in number:
            number["le"] = kind(most)
    return _without_booleans(schema)


def _numbers(schema: Any, stated: tuple[float, float] | None) -> Iterator[tuple[dict[str, Any], Any]]:
    """Schemas of numbers in the schema of a field, those of other records left out, and the range of their unit."""
    if isinstance(schema, dict):
        if schema.get("type") in ("int", "float"):
            yield schema, stated
        elif schema.get("type") not in _OTHERS:
            check: Any = (schema.get("function") or {}).get("function")
            stated = (check.least, check.most) if hasattr(check, "least") else stated
            for key, inner in schema.items():
                if key not in _NO_SCHEMA:
                    yield from _numbers(inner, stated)
    elif isinstance(schema, list | tuple):
        for inner in schema:
            yield from _numbers(inner, stated)


def _without_booleans(schema: Any) -> Any:
    """The same schema with a check before each number: pydantic itself takes true for 1."""
    if isinstance(schema, dict):
        if schema.get("type") in ("int", "float"):
            check = {"type": "no-info", "function": _no_boolean}
            return {"type": "function-before", "function": check, "schema": schema}
        if schema.get("type") in _OTHERS or (schema.get("function") or {}).get("function") is _no_boolean:
            return schema
        return {k: v if k in _NO_SCHEMA else _without_booleans(v) for k, v in schema.items()}
    if isinstance(schema, list | tuple):
        return type(schema)(_without_booleans(inner) for inner in schema)
    return schema


_OTHERS: Final = ("model", "definition-ref", "literal", "enum")
_NO_SCHEMA: Final = ("metadata", "serialization", "json_schema_input_schema", "function", "default", "ref")


def _no_boolean(value: Any) -> Any:
    """A number, or what may become one."""
    if value is True or value is False:
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value
