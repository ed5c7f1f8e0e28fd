"""What every specification shares: frozen, no unknown fields, units parsed from strings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from windtunnel.errors import Problem
from windtunnel.units import parse_quantity

MOST = 1e24
"""Largest quantity in SI units: beyond what there is, and far from where products of several overflow."""


class Inconsistent(ValueError):
    """What a validator of a whole record raises: several problems, each with the field it concerns."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


class Spec(BaseModel):
    """A frozen record that refuses unknown fields, and numbers that are infinite or none.

    `windtunnel.scenarios.explain` turns pydantic's complaints into one message that lists every problem.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)


def quantity(dimension: str) -> BeforeValidator:
    """Accepts a string with a unit of `dimension` for a number that is not negative."""

    def parse(value: Any) -> Any:
        number = parse_quantity(value, dimension) if isinstance(value, str) else value
        if isinstance(number, bool):
            raise ValueError("must be a number, not true or false")
        if isinstance(number, int | float) and number != number:
            raise ValueError("must be a number")
        if isinstance(number, int | float) and number < 0:
            raise ValueError("must not be negative")
        if isinstance(number, int | float) and number > MOST:
            raise ValueError(f"must be at most {MOST:g}")
        return number

    return BeforeValidator(parse, json_schema_input_type=float | str)


Named = str | dict[str, dict[str, Any]]
"""An entry of a registry: its id, or `{id: {knob: value}}`."""


Count = Annotated[int, Field(gt=0, le=10**9)]
"""How many of something there are."""
Bytes = Annotated[float, quantity("bytes")]
BytesPerS = Annotated[float, quantity("bytes/s")]
FlopPerS = Annotated[float, quantity("flop/s")]
Seconds = Annotated[float, quantity("s")]
Watts = Annotated[float, quantity("W")]
Hertz = Annotated[float, quantity("Hz")]
"""SI floats; a string with a unit ("3.35 TB/s", "400 Gb/s", "80 GiB", "700 W", "12 us") is accepted in their place."""
