"""A result as a few numbers that change with any of its figures."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any

NOT_PREDICTED = frozenset(
    (
        "wall_s elapsed_s simulated_in_s compile_s worker_steps_per_s screened_per_s input_hash scenario_name "
        "citations version"
    ).split()
)
"""Fields that depend on the machine, repeat the question or name papers."""

REPEATED = ("scenario", "schema_version")
"""Fields of a result that no prediction moves: the question, and the version of its own keys."""


def digest(result: Any, depth: int = 1) -> dict[str, float]:
    """Path of a field → its number, or one number over all that lies below it, at twelve digits.

    Below `depth` numbers are added up as weighted logarithms, so that a relative change of any of them shows, however
    small it is beside the others, and so does a swap of two. Words without a space count, since they are ids; sentences
    do not.
    """
    found: dict[str, float] = {}
    result = without_schema(result)
    if isinstance(result, dict):
        result = {name: value for name, value in result.items() if name not in REPEATED}
    _digest(result, "", depth, found)
    return {path: float(f"{value:.12g}") for path, value in sorted(found.items())}


def without_schema(value: Any) -> Any:
    """Plain data without the `schema_version` of results; that of a scenario, which states a model or jobs, stays."""
    if isinstance(value, dict):
        asked = value.keys() & {"model", "jobs", "cluster"}
        return {k: without_schema(v) for k, v in value.items() if asked or k != "schema_version"}
    return [without_schema(one) for one in value] if isinstance(value, list | tuple) else value


def differences(found: dict[str, float], stored: dict[str, float]) -> dict[str, tuple[float | None, float | None]]:
    """Fields that are not equal at eleven digits: found, stored."""
    return {
        path: (found.get(path), stored.get(path))
        for path in sorted(found.keys() | stored.keys())
        if path not in found or path not in stored or not math.isclose(found[path], stored[path], rel_tol=1e-11)
    }


def _digest(value: Any, path: str, depth: int, found: dict[str, float]) -> None:
    if isinstance(value, dict) and depth > 0:
        for name, inner in value.items():
            if name not in NOT_PREDICTED:
                _digest(inner, f"{path}.{name}" if path else str(name), depth - 1, found)
        return
    if (number := checksum(value)) is not None:
        found[path] = number


def checksum(value: Any) -> float | None:
    """A number that changes with any number, truth value or word below a value; None where there are none.

    The value itself where it is a number.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if value == "":
        return None
    numbers = list(_numbers(value, ""))
    return sum((1.0 + 0.37 * (place % 89)) * each for place, each in enumerate(numbers)) if numbers else None


def _numbers(value: Any, name: str) -> Iterator[float]:
    """Everything below a value in order: logarithms of numbers, checksums of keys and of words."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in NOT_PREDICTED:
                yield from _numbers(inner, str(key))
    elif isinstance(value, list | tuple):
        yield float(len(value))
        for inner in value:
            yield from _numbers(inner, name)
    elif isinstance(value, bool) or value is None:
        yield {True: 3.0, False: 2.0, None: 1.0}[value]
    elif isinstance(value, int | float):
        yield math.asinh(value * 1e12) if math.isfinite(value) else 1e3
    elif isinstance(value, str) and " " not in value:
        yield zlib.crc32(f"{name}={value}".encode()) / 2**32
