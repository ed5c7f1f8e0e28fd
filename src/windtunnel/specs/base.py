"""What every specification shares: frozen, no unknown fields, units parsed from strings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import CoreSchema

from windtunnel.errors import Problem
from windtunnel.specs.ranges import OF_UNIT, likely_unit, with_ranges
from windtunnel.units import format_quantity, parse_quantity, unit_factors


class Inconsistent(ValueError):
    """What a validator of a whole record raises: several problems, each with the field it concerns."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


def _fields_of(schema: Any) -> dict[str, Any]:
    """Fields in the core schema of a record, below the checks that stand around it."""
    while schema and schema["type"] != "model-fields":
        schema = schema.get("schema")
    fields: dict[str, Any] = schema["fields"] if schema else {}
    return fields


class Spec(BaseModel):
    """A frozen record that refuses unknown fields, and numbers that are infinite or none.

    `windtunnel.scenarios.explain` turns pydantic's complaints into one message that lists every problem.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    def __hash__(self) -> int:
        """Of all fields, mappings among them."""
        values = tuple(self.__dict__.values())
        try:
            return hash(values)
        except TypeError:
            return hash(_hashable(values))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The schema of the record, in which every number has a range and none may be true or false."""
        schema = handler(source)
        for name, field in _fields_of(handler.resolve_ref_schema(schema)).items():
            field["schema"] = with_ranges(field["schema"], name)
        return schema


def _hashable(value: Any) -> Any:
    """Mappings and lists as what can be hashed, equal where they are."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(inner)) for key, inner in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class _Quantity:
    """Makes a number of what a user wrote, and refuses one that is outside a range."""

    dimension: str
    least: float
    most: float

    def __call__(self, value: Any) -> Any:
        number = parse_quantity(value, self.dimension) if isinstance(value, str) else value
        if isinstance(number, bool):
            raise ValueError(f"must be a number, not {str(number).lower()}")
        if not isinstance(number, int | float):
            return number
        if number != number:
            raise ValueError("must be a number")
        if number < 0:
            raise ValueError("must not be negative")
        if number < self.least:
            factors = unit_factors(self.dimension)
            meant = None if isinstance(value, str) else likely_unit(number, self.dimension, self.least, factors)
            hint = f"; did you mean '{meant}'?" if meant else ""
            raise ValueError(f"must be at least {format_quantity(self.least, self.dimension)}{hint}")
        if number > self.most:
            raise ValueError(f"must be at most {format_quantity(self.most, self.dimension)}")
        return number


def or_installed(kind: str) -> WrapValidator:
    """Let a list of words grow by what other distributions add through the entry-point group `windtunnel.<kind>`."""

    def known_or_installed(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
        try:
            return known(value)
        except ValidationError:
            if isinstance(value, str) and value and entry_points(group=f"windtunnel.{kind}", name=value):
                return value
            raise

    return WrapValidator(known_or_installed)


def quantity(dimension: str, least: float | None = None) -> BeforeValidator:
    """Accepts a string with a unit of `dimension` for a number in its range.

    Args:
        dimension: of `units.DIMENSIONS`.
        least: smallest number that there is of this kind, above the one of the unit.
    """
    lowest, most = OF_UNIT[dimension]
    lowest = lowest if least is None else least
    numbers = Annotated[float, Field(ge=lowest, le=most)]
    return BeforeValidator(_Quantity(dimension, lowest, most), json_schema_input_type=numbers | str)


def name_of_digits(value: Any) -> Any:
    """A name that YAML reads as a number, such as `4090`, as text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Named = str | dict[str, dict[str, Any]]
"""An entry of a registry: its id, or `{id: {knob: value}}`."""


_RELEASE = re.compile(r"v?\d[\w.+-]*|[0-9a-f]{7,40}|main|master|nightly|latest|dev|stable|head")
_SIZE = re.compile(r"\d+(\.\d+)?([kKMGTPE]i?)?[Bb]")


def _release(text: str) -> str:
    """A release as software numbers them, a date, a commit or a branch; not a quantity."""
    if text and (len(text) > 60 or not _RELEASE.fullmatch(text.strip()) or _SIZE.fullmatch(text.strip())):
        raise ValueError("must be a release such as 0.10.0, v1.2rc1, 24.07, a date such as 2024-07, or a commit")
    return text


Release = Annotated[str, AfterValidator(_release)]
"""A release of software."""
Count = Annotated[int, Field(gt=0, le=10**9)]
"""How many of something there are."""
Bytes = Annotated[float, quantity("bytes")]
BytesPerS = Annotated[float, quantity("bytes/s")]
MemoryBytes = Annotated[float, quantity("bytes", 1e3)]
"""Memory of a device, a microcontroller's at least."""
MemoryBytesPerS = Annotated[float, quantity("bytes/s", 1e6)]
LinkBytesPerS = Annotated[float, quantity("bytes/s", 1e3)]
FlopPerS = Annotated[float, quantity("flop/s", 1e3)]
Seconds = Annotated[float, quantity("s")]
Watts = Annotated[float, quantity("W")]
Hertz = Annotated[float, quantity("Hz")]
"""SI floats; a string with a unit ("3.35 TB/s", "400 Gb/s", "80 GiB", "700 W", "12 us") is accepted in their place."""
