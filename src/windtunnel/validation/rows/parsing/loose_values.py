"""Loose values to typed ones. Nothing here raises: a value that cannot be read is `None`."""

from __future__ import annotations

import math
import re
from typing import Any

_NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?")


def number(value: Any) -> float | None:
    """A finite number out of a number, a numeric string or a one-element list."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        match = _NUMBER.search(value)
        if match is None:
            return None
        try:
            found = float(match.group().replace(",", ""))
        except ValueError:
            return None
        return found if math.isfinite(found) else None
    if isinstance(value, (list, tuple)) and len(value) == 1:
        return number(value[0])
    return None


def count(value: Any) -> int | None:
    """A positive whole number; 0 and negative values count as not stated."""
    found = number(value)
    if found is None or found < 1 or abs(found - round(found)) > 1e-6 or found > 1e15:
        return None
    return round(found)


def switch(value: Any) -> bool | None:
    """A yes/no out of a bool, 0/1 or a word."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return bool(value)
    if isinstance(value, str):
        word = value.strip().lower()
        if re.fullmatch(r"(true|yes|on|enabled?|1)\b.*", word):
            return True
        if re.fullmatch(r"(false|no|none|off|disabled?|not used|0)\b.*", word):
            return False
    return None


def words(value: Any) -> str:
    """Any value as one lower-case string, for pattern matching; `""` when absent."""
    if value is None:
        return ""
    if isinstance(value, str):
        return " ".join(value.lower().split())
    if isinstance(value, dict):
        return "; ".join(f"{words(k)}: {words(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple, set)):
        return ", ".join(words(v) for v in value)
    return str(value).lower()


def mapping(value: Any) -> dict[str, Any]:
    """A dictionary with string keys, or an empty one."""
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else {}


def first(source: dict[str, Any], *names: str) -> Any:
    """The first of several spellings of a key that is present and not null."""
    for name in names:
        if source.get(name) is not None:
            return source[name]
    return None


UNSTATED = re.compile(
    r"^$|\bnot (listed|stated|given|known|specified|in (the )?(table|doc\w*))|\bunknown|\bunstated|\bunspecified"
    r"|^see (the )?recipe|^n/?a$|^\?+$|^default$|\bunclear"
)
"""Phrases by which a source, or who copied it, says that a setting is open."""


def unstated(value: Any) -> bool:
    """Whether a field says nothing, or says that it says nothing."""
    return value is None or (isinstance(value, str) and UNSTATED.search(words(value)) is not None)
