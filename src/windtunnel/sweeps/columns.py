"""Columns of a row: the scalars of a command's JSON, dots become underscores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SKIPPED = frozenset(
    {"scenario", "plan", "assumed", "warnings", "citations", "figure", "version", "schema_version", "input_hash"}
)
"""Entries of a result that are its question, or text."""
DEEPEST = 4


def columns_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Scalars of a result by column name.

    Args:
        result: What a command's `--json` prints. Lists are left out; mappings become `outer_inner`.
    """
    out: dict[str, Any] = {}
    _collect(result, "", 0, out)
    return out


def _collect(values: Mapping[str, Any], prefix: str, depth: int, out: dict[str, Any]) -> None:
    for name, value in values.items():
        if depth == 0 and name in SKIPPED:
            continue
        column = f"{prefix}{_plain(name)}"
        if isinstance(value, bool | int | float | str) or value is None:
            out.setdefault(column, value)
        elif isinstance(value, Mapping) and depth < DEEPEST:
            _collect(value, f"{column}_", depth + 1, out)


def _plain(name: object) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in str(name))
