"""Records as JSON text that holds its own checksum, so that damage is seen when it is read."""

from __future__ import annotations

import hashlib
import json
from typing import Any

SEAL = "sha256"
"""Entry of a record with the checksum of the others."""


def sealed(data: dict[str, Any], indent: int | None = 1) -> bytes:
    """A record as JSON that holds its own checksum."""
    return json.dumps(data | {SEAL: _sum_of(data)}, indent=indent, ensure_ascii=False).encode()


def unsealed(text: str) -> dict[str, Any]:
    """The record that a JSON text holds; one of an earlier version has no checksum.

    Raises:
        ValueError: it is damaged.
    """
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("it is no object")
    told = data.pop(SEAL, None)
    if told is not None and told != _sum_of(data):
        raise ValueError("its checksum does not fit")
    return data


def _sum_of(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
