"""The figures of a result that fit into a small answer, most wanted first."""

from __future__ import annotations

import json
import re
from typing import Any

from windtunnel.commands import COMMANDS
from windtunnel.error_records import problems_of
from windtunnel.mcp.records import Answer, ProblemRecord, small

_DISTRIBUTION = ("mean", "p50", "p90", "p99")


def summary(verb: str, result: dict[str, Any], detail: str) -> Answer:
    """A small answer of a command's result; with `detail` full also the result itself."""
    from windtunnel.training.results.serialise import plain

    result = plain(result)
    command = COMMANDS.get(verb) if verb in COMMANDS else None
    wanted, main = (command.figures, command.main) if command is not None else ((), "")
    figures = {name: _short(result[name]) for name in wanted if result.get(name) is not None}
    interval = result.get("interval") or (result.get("intervals") or {}).get(main)
    grades = result.get("grades")
    answer = Answer(
        ok=True,
        figures=figures,
        interval=_band(interval),
        grade=grades.get(main) if isinstance(grades, dict) else None,
        assumed=[f"{one['field']} = {one['value']}" for one in result.get("assumed", ()) if isinstance(one, dict)],
        warnings=[str(one) for one in result.get("warnings", ())],
    )
    return answer.model_copy(update={"full": result}) if detail == "full" else small(answer)


def failure(error: Exception, given: Any = ()) -> list[ProblemRecord]:
    """What went wrong, as tools state it.

    Args:
        error: what was raised.
        given: what the caller sent; a value that is not part of it came out of a file and is not repeated.
    """
    problems, code = problems_of(error)
    if code == 1:
        return [ProblemRecord(allowed=f"internal error: {type(error).__name__}")]
    if isinstance(error, OSError):
        return [ProblemRecord(allowed="a file that it names cannot be used")]
    sent = json.dumps(given, ensure_ascii=False, default=str)
    return [
        ProblemRecord(
            path=one["field"] or one["file"],
            value=one["value"] if _stands_in(one["value"], sent) else None,
            allowed=str(one["message"]),
            nearest=_nearest(one["hint"]),
        )
        for one in problems
    ]


def _stands_in(value: Any, sent: str) -> bool:
    """Whether a value was sent: a text as part of one, a number or anything else as a whole."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, str):
        return text[1:-1] in sent
    return re.search(rf"(?<![\w.]){re.escape(text)}(?![\w.])", sent) is not None


def _nearest(hint: Any) -> str | None:
    text = str(hint or "")
    return text.split("'")[1] if text.startswith("did you mean '") else (text or None)


def _band(interval: Any) -> dict[str, Any] | None:
    if not isinstance(interval, dict):
        return None
    return {name: interval[name] for name in ("level", "low", "high") if name in interval} or None


def _short(value: Any, depth: int = 0) -> Any:
    """A value with four digits, distributions by their percentiles, lists and mappings by their first entries."""
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, str):
        return value if len(value) <= 120 else value[:119] + "…"
    if isinstance(value, dict):
        if "p50" in value and "p99" in value:
            return {name: _short(value[name]) for name in _DISTRIBUTION if name in value}
        most = 8 if depth == 0 else 5
        kept = [(k, v) for k, v in value.items() if v not in (None, [], {}, "")][:most]
        return {str(k): _short(v, depth + 1) for k, v in kept} if depth < 3 else "…"
    if isinstance(value, list | tuple):
        return [_short(one, depth + 1) for one in value[:3]] if depth < 3 else "…"
    return str(value)
