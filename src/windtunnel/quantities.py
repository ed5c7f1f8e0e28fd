"""Numbers as people read them: seconds, bytes, counts, shares."""

from __future__ import annotations

import math
import re
from typing import Any

_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0}
_TIME = re.compile(r"^\s*(\S+?)\s*(ms|us|µs|min|s)?\s*$", re.IGNORECASE)
_RANGE = re.compile(r"(?<=[0-9.])(?:-|\.\.)(?=[0-9.])")

LEAST_S, MOST_S = 1e-9, 1e9
"""Times that a measured step may take."""


def read_seconds(text: str) -> tuple[float, float] | None:
    """Both ends of a time or a range of times, None for a text that is neither.

    Raises:
        ValueError: a number that no step takes: less than a nanosecond, more than thirty years, not finite.

    Example:
        >>> read_seconds("500ms"), read_seconds("14.6-14.8"), read_seconds("trace.json")
        ((0.5, 0.5), (14.6, 14.8), None)
    """
    found = _TIME.match(text)
    if not found:
        return None
    try:
        ends = [float(part) * _UNITS[(found[2] or "").lower()] for part in _RANGE.split(found[1])]
    except ValueError:
        return None
    if len(ends) > 2 or not all(LEAST_S <= end <= MOST_S for end in ends):
        raise ValueError(text)
    return min(ends), max(ends)


def significant(value: float) -> str:
    """Three significant digits with thousands separators; trailing zeros stay, so that columns of figures align.

    Example:
        >>> significant(64645.3), significant(16.0), significant(0.99964), significant(0.0)
        ('64,600', '16.0', '1.00', '0')
    """
    if not value or not math.isfinite(value):
        return f"{value:g}"
    rounded = round(value, 2 - math.floor(math.log10(abs(value))))
    return f"{rounded:,.{max(2 - math.floor(math.log10(abs(rounded))), 0)}f}"


_CARRY = 1.0 - 5e-4
"""Share of a unit from which three digits round up to the unit."""


def seconds(value: float) -> str:
    """Three significant digits with the unit that suits.

    Example:
        >>> seconds(14.6237), seconds(0.01234), seconds(8.2e-6), seconds(1e-9)
        ('14.6 s', '12.3 ms', '8.20 µs', '1.00 ns')
    """
    size = abs(value)
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if size >= unit * _CARRY or not size:
            return f"{significant(value / unit)} {name}"
    return f"{significant(value * 1e9)} ns"


def duration(value: float) -> str:
    """Seconds as people say them: days from two days on, else hours, minutes or seconds.

    Example:
        >>> duration(3.5 * 86400), duration(86400), duration(5400), duration(90), duration(14.6)
        ('3.50 days', '24.0 h', '90.0 min', '90.0 s', '14.6 s')
    """
    size = abs(value)
    if size >= 2 * 86400:
        return f"{significant(value / 86400)} days"
    if size >= 2 * 3600:
        return f"{significant(value / 3600)} h"
    if size >= 120:
        return f"{significant(value / 60)} min"
    return seconds(value)


SUFFIXES_OF_LENGTHS = {"k": 1024.0, "m": 1024.0**2}
"""Tokens of a sequence: `8k` is 8,192."""
SUFFIXES_OF_COUNTS = {"k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
"""Anything else that is counted: powers of ten."""


def three(value: float) -> str:
    """A number with three significant digits and thousands separators; whole numbers below a thousand as they are.

    Example:
        >>> three(64645.3), three(16.2237), three(0.123456), three(20.0)
        ('64,600', '16.2', '0.123', '20')
    """
    if not value or not math.isfinite(value):
        return f"{value:g}"
    text = significant(value)
    return text if float(text.replace(",", "")) % 1 else text.partition(".")[0]


def gib(value: float) -> str:
    """Bytes in GiB (MiB when small), with at most three significant digits.

    Example:
        >>> gib(80 * 2**30), gib(0.456 * 2**30), gib(5 * 2**20)
        ('80.0 GiB', '0.46 GiB', '5.00 MiB')
    """
    size = abs(value) / 2**30
    if size >= _CARRY:
        return f"{significant(value / 2**30)} GiB"
    if size >= 0.1 or not value:
        return f"{value / 2**30:.2f} GiB"
    return f"{significant(value / 2**20)} MiB"


def count(value: float) -> str:
    """A count with thousands separators, or with M, B, T when large; a rate has three significant digits.

    Example:
        >>> count(71234), count(71234.5), count(70.55e9)
        ('71,234', '71,200', '70.5 B')
    """
    for limit, unit, letter in ((1e12, 1e12, "T"), (1e9, 1e9, "B"), (1e7, 1e6, "M")):
        if abs(value) >= limit:
            return f"{significant(value / unit)} {letter}"
    return f"{value:,.0f}" if float(value).is_integer() else three(value)


def signed_percent(share: float, digits: int = 1) -> str:
    """A relative change in per cent, with a sign of the width of a plus; none where nothing changes.

    Example:
        >>> signed_percent(0.061), signed_percent(-0.01), signed_percent(0.0)
        ('+6.1 %', '−1.0 %', '0.0 %')
    """
    return signed_number(100 * share, digits) + " %"


def signed_number(value: float, digits: int = 1) -> str:
    """A difference with its sign; none where it rounds to nothing.

    Example:
        >>> signed_number(-48.93, 2), signed_number(0.04)
        ('−48.93', '0.0')
    """
    text = f"{abs(value):,.{digits}f}"
    nothing = not text.strip("0.,")
    return text if nothing else ("+" if value > 0 else "−") + text


def signed_seconds(value: float) -> str:
    """A difference of times with its sign.

    Example:
        >>> signed_seconds(-0.25), signed_seconds(1.5)
        ('−250 ms', '+1.50 s')
    """
    return ("+" if value > 0 else "−" if value < 0 else "") + seconds(abs(value))


def signed_gib(value: float) -> str:
    """A difference of sizes with its sign.

    Example:
        >>> signed_gib(-2.0 * 2**30)
        '−2.00 GiB'
    """
    return ("+" if value > 0 else "−" if value < 0 else "") + gib(abs(value))


def dollars(value: float) -> str:
    """An amount of money: prices of the catalogue are in US dollars, and so are those that a scenario gives.

    Example:
        >>> dollars(0.4412), dollars(3.5), dollars(78636.0)
        ('$0.441', '$3.50', '$78,600')
    """
    size = abs(value)
    text = three(size) if size < 1 else f"{size:.2f}" if size < 10 * _CARRY else significant(size)
    return f"{'−' if value < 0 else ''}${text}"


def value_text(value: Any, name: str = "") -> str:
    """A field's value as people read it: sizes and times by their unit, switches as yes and no, mappings by entry.

    Args:
        value: plain data.
        name: of the field, whose ending says the unit.

    Example:
        >>> value_text(2.199e12, "host_memory_bytes"), value_text(True), value_text({"policy": "full", "layers": None})
        ('2,050 GiB', 'yes', 'policy full')
    """
    if isinstance(value, dict):
        entries = {k: v for k, v in value.items() if v not in (None, [], (), "", {})}
        return ", ".join(f"{str(k).replace('_', ' ')} {value_text(v, str(k))}" for k, v in entries.items()) or "none"
    if isinstance(value, (list, tuple)):
        if len(value) > 4 and len(set(map(str, value))) == 1:
            return f"{len(value)} × {value_text(value[0])}"
        return ", ".join(value_text(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        if not math.isfinite(value):
            return "no limit" if value > 0 else "–"
        if name.endswith("_bytes"):
            return gib(value)
        if name.endswith("_s"):
            return seconds(value)
        return f"{value:,.6g}" if abs(value) < 1e6 else count(value)
    return "not set" if value is None else str(value)


def quantity(value: float, unit: str) -> str:
    """A value with its unit, as people write it.

    Example:
        >>> quantity(50e9, "bytes/s"), quantity(989.4e12, "FLOP/s"), quantity(12.5, "s")
        ('50 GB/s', '989 TFLOP/s', '12.5 s')
    """
    if unit == "bytes":
        return gib(value)
    if unit == "s":
        for size, name in ((86400.0 * 2, "d"), (3600.0 * 2, "h")):
            if value >= size:
                return f"{three(value / (size / 2))} {name}"
        return seconds(value)
    if unit == "share":
        return f"{value:.3g}"
    if unit == "money":
        return dollars(value)
    if unit in ("bytes/s", "FLOP/s", "W", "J", "1/s", ""):
        small = {"bytes/s": "B/s", "1/s": "/s"}.get(unit, unit)
        for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if value >= size and unit in ("bytes/s", "FLOP/s", "W", "J"):
                return f"{value / size:.3g} {prefix}{small}".replace("e+03", "000")
        return f"{three(value)} {small}".strip()
    if unit == "kg CO₂" and abs(value) >= 1000:
        return f"{three(value / 1000)} t CO₂"
    return f"{three(value)} {unit}"


def shown_value(value: Any) -> str:
    """A field's value, equal lists shortened."""
    if isinstance(value, float) and value.is_integer():
        return f"{value:,.0f}"
    return "not given" if value is None else value_text(value)


def assumed_text(field: str, value: Any) -> str:
    """An assumed value, which records hold as text: sizes and times by their unit, switches as yes and no."""
    text = str(value)
    if text in ("True", "False"):
        return value_text(text == "True")
    try:
        return value_text(float(text), field) if field.endswith(("_bytes", "_s")) else text
    except ValueError:
        return text


def probability(share: float) -> str:
    """A probability in per cent; none is stated as certain, as runs differ from their scenarios.

    Example:
        >>> probability(0.99996), probability(0.53)
        ('over 99 %', '53 %')
    """
    return "over 99 %" if share > 0.99 else "under 1 %" if share < 0.01 else percent(share, 0)


def percent(share: float, digits: int = 1) -> str:
    """A share in per cent.

    Example:
        >>> percent(0.5432)
        '54.3 %'
    """
    return f"{100 * share:.{digits}f} %"
