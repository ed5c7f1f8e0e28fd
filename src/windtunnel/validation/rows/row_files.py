"""Files of measured rows: those that come with the package, and those of a user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from windtunnel.errors import BadInput
from windtunnel.files import reading
from windtunnel.files.parsing import json_of

SHIPPED = Path(__file__).parent / "measured"
"""Folder of the rows that come with the package."""


def shipped_rows() -> list[dict[str, Any]]:
    """The measured rows that come with the package, in file order."""
    return [row for path in sorted(SHIPPED.glob("*.json")) for row in json.loads(path.read_text("utf-8"))]


def shipped_serving_rows() -> list[dict[str, Any]]:
    """The measured serving rows that come with the package, in file order: release lines that other rows leave out."""
    return [row for path in sorted((SHIPPED / "serving").glob("*.json")) for row in load_rows(path)]


def shipped_reasoning_rows() -> list[dict[str, Any]]:
    """Public tables of attempts that come with the package, in file order: pass@k, pass^k and votes of other models."""
    return [row for path in sorted((SHIPPED / "reasoning").glob("*.json")) for row in load_rows(path)]


def serving_judges() -> list[dict[str, Any]]:
    """Published serving results that are predicted and set no coefficient, in file order."""
    return [row for path in sorted((SHIPPED / "serving_judges").glob("*.json")) for row in load_rows(path)]


def with_shipped(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The given rows, then the shipped ones whose ids are not among them: published runs that set no coefficient."""
    known = {r.get("id") for r in rows}
    return rows + [r for r in shipped_rows() if r.get("id") not in known]


def load_rows(path: Path) -> list[dict[str, Any]]:
    """A JSON list of measured rows.

    Raises:
        BadInput: the file cannot be read or is not a list of mappings.
    """
    try:
        data = json_of(reading.read_text(path, "rows", most_bytes=1 << 30))
    except ValueError as error:
        raise BadInput(f"rows = {path}: not JSON ({error})") from error
    if not isinstance(data, list) or any(not isinstance(r, dict) for r in data):
        raise BadInput(f"rows = {path}: must be a JSON list of mappings")
    return data
