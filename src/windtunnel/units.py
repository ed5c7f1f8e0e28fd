"""Quantities with units, as people write them, to and from SI floats.

Inside the package every quantity is SI (seconds, bytes, FLOP, watts, hertz); strings such as "3.35 TB/s" or "400 Gb/s"
exist only at the edge. Decimal prefixes are powers of ten and binary prefixes (Ki, Mi, Gi, Ti, Pi) powers of two, so
"80 GB" and "80 GiB" differ. A lower-case `b` is a bit and an upper-case `B` a byte; bits are converted to bytes where
bytes are asked for. Unit spellings are case-sensitive, because `Mb`, `MB` and `mb` are three different wishes.

Source: SI Brochure, 9th edition (decimal prefixes); IEC 80000-13:2008 (binary prefixes).
"""

from __future__ import annotations

import difflib
import math
import re
from typing import Final, Literal

KB: Final = 1e3
MB: Final = 1e6
GB: Final = 1e9
TB: Final = 1e12
KiB: Final = 2.0**10
MiB: Final = 2.0**20
GiB: Final = 2.0**30
TiB: Final = 2.0**40

Dimension = Literal["bytes", "bits", "bytes/s", "bits/s", "flop", "flop/s", "s", "W", "J", "Hz", "1/s", "1"]

_DECIMAL = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}


def _scaled(stems: dict[str, float], prefixes: dict[str, float], suffixes: tuple[str, ...] = ("",)) -> dict[str, float]:
    return {
        f"{prefix}{stem}{suffix}": scale * factor
        for stem, factor in stems.items()
        for prefix, scale in prefixes.items()
        for suffix in suffixes
    }


_ALL = {**_DECIMAL, **_BINARY}
_BYTES = _scaled({"B": 1.0, "b": 1 / 8}, _ALL) | {"byte": 1.0, "bytes": 1.0, "bit": 1 / 8, "bits": 1 / 8}
_BYTES_PER_S = (
    _scaled({"B": 1.0, "b": 1 / 8}, _ALL, ("/s", "ps"))
    | _scaled({"bit": 1 / 8}, _DECIMAL, ("/s",))
    | {"bytes/s": 1.0, "bits/s": 1 / 8}
)
_FLOP = _scaled({"FLOP": 1.0, "flop": 1.0}, _DECIMAL)
_FLOP_PER_S = _scaled({"FLOP/s": 1.0, "flop/s": 1.0, "FLOPS": 1.0, "FLOPs/s": 1.0, "OP/s": 1.0, "OPS": 1.0}, _DECIMAL)
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9, "ps": 1e-12} | {
    "sec": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}

_UNITS: dict[str, dict[str, float]] = {
    "bytes": _BYTES,
    "bits": {unit: factor * 8 for unit, factor in _BYTES.items()},
    "bytes/s": _BYTES_PER_S,
    "bits/s": {unit: factor * 8 for unit, factor in _BYTES_PER_S.items()},
    "flop": _FLOP,
    "flop/s": _FLOP_PER_S,
    "s": _SECONDS,
    "W": _scaled({"W": 1.0}, {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}),
    "J": _scaled({"J": 1.0}, {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9})
    | _scaled({"Wh": 3600.0}, {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}),
    "Hz": _scaled({"Hz": 1.0}, {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}),
    "1/s": {"/s": 1.0, "1/s": 1.0, "k/s": 1e3, "M/s": 1e6, "/min": 1 / 60, "/h": 1 / 3600},
    "1": {"": 1.0, "%": 1e-2, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12},
}
"""Dimension → unit spelling → how many SI units (of that dimension) one of it is."""

_SHOWN: dict[str, str] = {
    "bytes": "B, kB, MB, GB, TB, KiB, MiB, GiB, TiB (bits: Mb, Gb)",
    "bits": "b, kb, Mb, Gb, Tb, B, MB, GB",
    "bytes/s": "B/s, MB/s, GB/s, TB/s, GiB/s, TiB/s (bits: Mb/s, Gb/s, Tb/s)",
    "bits/s": "b/s, Mb/s, Gb/s, Tb/s, MB/s, GB/s",
    "flop": "FLOP, GFLOP, TFLOP, PFLOP, EFLOP",
    "flop/s": "FLOP/s, GFLOP/s, TFLOP/s, PFLOP/s, EFLOP/s",
    "s": "ns, us, ms, s, min, h, d",
    "W": "mW, W, kW, MW, GW",
    "J": "J, kJ, MJ, Wh, kWh, MWh",
    "Hz": "Hz, kHz, MHz, GHz",
    "1/s": "/s, /min, /h",
    "1": "none, %, k, M, B, T",
}

_QUANTITY = re.compile(r"\s*([+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf)\s*(.*?)\s*")

DIMENSIONS: Final = tuple(_UNITS)


def allowed_units(dimension: str) -> str:
    """The usual spellings of a dimension's units, for messages."""
    return _SHOWN[dimension]


def unit_factors(dimension: str) -> dict[str, float]:
    """How many SI units of a dimension one of each unit is."""
    return _UNITS[dimension]


_MEANT = {"m": "min", "mins": "min", "minute": "min", "minutes": "min", "secs": "s", "seconds": "s", "hr": "h"}
"""What people write for units of time."""


def nearest_unit(unit: str, dimension: str) -> str | None:
    """The spelling closest to what somebody wrote, or None when nothing is close."""
    units = [u for u in _UNITS[dimension] if u]
    if dimension == "s" and unit in _MEANT:
        return _MEANT[unit]
    folded = [u for u in units if u.lower() == unit.lower()]
    if folded:
        return min(folded, key=lambda u: sum(a != b for a, b in zip(u, unit, strict=True)))
    if f"{unit}/s" in units:
        return f"{unit}/s"
    close = difflib.get_close_matches(unit, units, n=1, cutoff=0.5)
    return close[0] if close else None


def parse_quantity(text: str | float, dimension: str) -> float:
    """Turn "3.35 TB/s" into 3.35e12.

    Args:
        text: number with an optional unit. A bare number is taken to be in the dimension's SI unit.
        dimension: one of `DIMENSIONS`; it fixes the unit of the result ("400 Gb/s" as "bytes/s" is 5e10).

    Returns:
        The value in SI units of `dimension`.

    Raises:
        ValueError: no number, or a unit of another dimension; the text lists the allowed units and the nearest one.
        KeyError: `dimension` is unknown (our own mistake).

    Example:
        >>> parse_quantity("400 Gb/s", "bytes/s")
        50000000000.0
    """
    units = _UNITS[dimension]
    if not isinstance(text, str):
        return float(text)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"must be a number with a unit; allowed: {allowed_units(dimension)}")
    number, unit = match.groups()
    unit = unit.replace(" ", "")
    if unit == "":
        return float(number)
    if unit not in units:
        nearest = nearest_unit(unit, dimension)
        hint = f"; did you mean '{nearest}'?" if nearest else ""
        raise ValueError(f"unknown unit '{unit}'; allowed: {allowed_units(dimension)}{hint}")
    value = float(number)
    factor = units[unit]
    # Division by an exact reciprocal keeps "12 us" equal to 12e-6 to the last bit.
    if 0 < factor < 1 and (inverse := round(1 / factor)) and math.isclose(inverse * factor, 1.0, rel_tol=1e-12):
        return value / inverse
    return value * factor


_LARGE = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1.0, ""))
_DISPLAY: dict[str, tuple[tuple[float, str], ...]] = {
    "bytes": ((TiB, "TiB"), (GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB"), (1.0, "B")),
    "bits": ((1e12, "Tb"), (1e9, "Gb"), (1e6, "Mb"), (1e3, "kb"), (1.0, "b")),
    "bytes/s": ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "bits/s": ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")),
    "flop": tuple((scale, f"{prefix}FLOP") for scale, prefix in _LARGE),
    "flop/s": tuple((scale, f"{prefix}FLOP/s") for scale, prefix in _LARGE),
    "s": ((86400.0, "d"), (3600.0, "h"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "W": ((1e9, "GW"), (1e6, "MW"), (1e3, "kW"), (1.0, "W"), (1e-3, "mW")),
    "J": ((3.6e9, "MWh"), (3.6e6, "kWh"), (1e3, "kJ"), (1.0, "J")),
    "Hz": ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz"), (1.0, "Hz")),
    "1/s": ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    "1": ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}


def format_quantity(value: float, dimension: str, digits: int = 4) -> str:
    """Write an SI value with the unit that keeps it readable: 5e10 bytes/s → "50 GB/s".

    Args:
        value: in SI units of `dimension`.
        dimension: one of `DIMENSIONS`.
        digits: significant digits; trailing zeros are dropped.

    Example:
        >>> format_quantity(85899345920, "bytes")
        '80 GiB'
    """
    scales = _DISPLAY[dimension]
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return f"0 {next(unit for scale, unit in scales if scale == 1.0)}".strip()
    magnitude = abs(value)
    scale, unit = next(((s, u) for s, u in scales if magnitude >= s * (1 - 1e-9)), scales[-1])
    number = f"{value / scale:.{digits}g}"
    if "e" in number:
        number = f"{float(number):.0f}" if abs(float(number)) >= 1 else number
    return f"{number} {unit}".strip()
