"""What every specification shares: frozen, no unknown fields, units parsed from strings."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from windtunnel.units import parse_quantity


class Spec(BaseModel):
    """A frozen record that refuses unknown fields.

    The loader (`windtunnel.specs.loader`) turns pydantic's complaints into one message that lists every problem.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


def _quantity(dimension: str) -> BeforeValidator:
    def parse(value: Any) -> Any:
        return parse_quantity(value, dimension) if isinstance(value, str) else value

    return BeforeValidator(parse)


Bytes = Annotated[float, _quantity("bytes")]
BytesPerS = Annotated[float, _quantity("bytes/s")]
FlopPerS = Annotated[float, _quantity("flop/s")]
Seconds = Annotated[float, _quantity("s")]
Watts = Annotated[float, _quantity("W")]
Hertz = Annotated[float, _quantity("Hz")]
"""SI floats; a string with a unit ("3.35 TB/s", "400 Gb/s", "80 GiB", "700 W", "12 us") is accepted in their place."""
