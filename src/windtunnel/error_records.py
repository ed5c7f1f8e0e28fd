"""What went wrong, as plain data: what `--json`, `batch`, `mcp` and the studio hand out."""

from __future__ import annotations

import json
import os
from typing import Any

from windtunnel.errors import BadInput, Infeasible, Problem, WindtunnelError, first_of, printable, shown

_LONGEST = 240
"""Characters of an unexpected error's own text that are shown."""


def problems_of(error: Exception) -> tuple[list[dict[str, Any]], int]:
    """Each problem as plain data, and the exit code."""
    if isinstance(error, BadInput):
        first, more = first_of(error.problems)
        rest = [problem_record(message=f"and {more:,} more problems")] if more else []
        return [*map(_of_input, first), *rest], error.exit_code
    if isinstance(error, Infeasible):
        return [problem_record(message=error.message, hint=error.nearest_miss)], error.exit_code
    if isinstance(error, WindtunnelError):
        return [problem_record(message=line) for line in str(error).splitlines()], error.exit_code
    if isinstance(error, MemoryError):
        from windtunnel.machine_memory import refusal

        return [problem_record(message=refusal(error))], BadInput.exit_code
    if isinstance(error, OSError) and error.filename is not None:
        why = (error.strerror or "cannot be used").lower()
        return [problem_record(file=str(error.filename), message=f"{error.filename}: {why}")], BadInput.exit_code
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        return [problem_record(message="the working directory is not there any more")], BadInput.exit_code
    text = " ".join(str(error).split())
    text = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    where = "(WINDTUNNEL_DEBUG=1 shows where)"
    return [problem_record(message=f"internal error: {type(error).__name__}: {text} {where}")], 1


def _has_working_directory() -> bool:
    try:
        return bool(os.getcwd())
    except OSError:
        return False


def _of_input(problem: Problem) -> dict[str, Any]:
    """A problem of the input as plain data."""
    data = problem.as_dict()
    hint = f"did you mean '{problem.nearest}'?" if problem.nearest is not None else None
    return problem_record(
        file=data["file"],
        line=data["line"],
        field=data["field"] or None,
        value=data.get("value"),
        message=data["rule"],
        hint=hint,
    )


def problem_record(**known: Any) -> dict[str, Any]:
    """One problem with all its keys; what is not known is null, and what JSON cannot hold is the text of it."""
    whole = dict.fromkeys(("file", "line", "field", "value", "message", "hint")) | known
    for name, value in whole.items():
        if isinstance(value, str) and name != "value":
            whole[name] = printable(value)
        elif not _is_plain(value) or (isinstance(value, str) and len(value) > _LONGEST):
            whole[name] = shown(value, most=_LONGEST)
    return whole


def _is_plain(value: Any) -> bool:
    """Whether JSON in UTF-8 can hold a value."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True
