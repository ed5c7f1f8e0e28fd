"""Figures have three significant digits in text, whatever their size and unit."""

from __future__ import annotations

import re

import pytest

from windtunnel.quantities import count, dollars, duration, gib, quantity, seconds, significant, three

SIZES = [mantissa * 10.0**power for mantissa in (1.0, 1.2345678, 4.99951, 9.9949, 9.9996) for power in range(-8, 9)]
TEXTS = {
    "seconds": seconds,
    "duration": duration,
    "gib": lambda value: gib(value * 2**20),
    "count": lambda value: count(value + 0.123),
    "dollars": dollars,
    "bytes/s": lambda value: quantity(value, "bytes/s"),
    "kWh": lambda value: quantity(value, "kWh"),
    "significant": significant,
    "three": three,
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_has_three_significant_digits(name: str) -> None:
    for value in SIZES:
        text = TEXTS[name](value)
        number = re.match(r"[$]?([\d,.]+)", text)
        assert number, text
        digits = number[1].replace(",", "")
        shown = digits.replace(".", "").lstrip("0")
        if "." not in digits:
            shown = shown.rstrip("0")
        assert len(shown) <= 3, (value, text)
        assert "e" not in text.split()[0], text
