"""Quantities with units, both ways."""

from __future__ import annotations

import math

import pytest

from windtunnel.units import DIMENSIONS, GiB, allowed_units, format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("3.35 TB/s", "bytes/s", 3.35e12),
        ("400 Gb/s", "bytes/s", 50e9),
        ("400Gbps", "bytes/s", 50e9),
        ("400 Gbit/s", "bytes/s", 50e9),
        ("80 GiB", "bytes", 80 * GiB),
        ("80 GB", "bytes", 80e9),
        ("8 Mb", "bytes", 1e6),
        ("1 GB", "bits", 8e9),
        ("989.4 TFLOP/s", "flop/s", 989.4e12),
        ("1.6 POPS", "flop/s", 1.6e15),
        ("12 us", "s", 12e-6),
        ("12 µs", "s", 12e-6),
        ("5 ns", "s", 5e-9),
        ("2 h", "s", 7200.0),
        ("0.7 kW", "W", 700.0),
        ("1 kWh", "J", 3.6e6),
        ("1.98 GHz", "Hz", 1.98e9),
        ("120 /min", "1/s", 2.0),
        ("10 %", "1", 0.1),
        ("7 B", "1", 7e9),
        (" 1_000 ", "bytes", 1000.0),
        ("1e-6", "s", 1e-6),
        (".5 ms", "s", 5e-4),
        (42, "bytes", 42.0),
    ],
)
def test_values_are_exact(text: str | float, dimension: str, value: float) -> None:
    assert parse_quantity(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "hint"),
    [
        ("400 gbps", "bytes/s", "did you mean 'Gbps'"),
        ("80 gb", "bytes", "did you mean 'G"),
        ("3 TB", "bytes/s", "did you mean 'TB/s'"),
        ("700 watts", "W", "allowed: mW, W, kW"),
        ("fast", "bytes/s", "must be a number with a unit"),
        ("", "s", "must be a number with a unit"),
        ("1 2 s", "s", "unknown unit"),
        ("0x10 B", "bytes", "unknown unit"),
    ],
)
def test_a_wrong_unit_names_what_is_allowed(text: str, dimension: str, hint: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_quantity(text, dimension)
    assert hint in str(caught.value)


def test_units_of_another_dimension_are_refused() -> None:
    for text, dimension in (("1 s", "bytes"), ("1 B", "s"), ("1 W", "J"), ("1 FLOP", "flop/s"), ("1 B/s", "bytes")):
        with pytest.raises(ValueError, match="unknown unit"):
            parse_quantity(text, dimension)


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (80 * GiB, "bytes", "80 GiB"),
        (5e10, "bytes/s", "50 GB/s"),
        (0.0, "s", "0 s"),
        (14.34, "s", "14.34 s"),
        (3.2e-5, "s", "32 us"),
        (-2e-3, "s", "-2 ms"),
        (989.4e12, "flop/s", "989.4 TFLOP/s"),
        (0.5, "bytes", "0.5 B"),
        (999999.0, "W", "1000 kW"),
        (math.inf, "bytes", "inf"),
    ],
)
def test_quantities_are_shown_in_a_readable_unit(value: float, dimension: str, text: str) -> None:
    assert format_quantity(value, dimension) == text


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("value", [1.0, 3.7, 1234.5, 8.1e7, 2.5e12, 0.02])
def test_what_is_shown_can_be_read_again(dimension: str, value: float) -> None:
    assert parse_quantity(format_quantity(value, dimension, digits=12), dimension) == pytest.approx(value, rel=1e-9)
    assert allowed_units(dimension)
