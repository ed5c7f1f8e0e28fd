"""Bodies of requests and answers as OpenAI-compatible servers take and give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from windtunnel.files.parsing import json_of

_PROMPTS = ("prompt", "text_input", "input", "text")
_CAPS = ("max_completion_tokens", "max_tokens", "max_output_len", "max_new_tokens", "min_tokens")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the pieces of an answer say of its length; None where they do not."""

    tokens: int | None = None
    prompt_tokens: int | None = None


def prompt_text(payload: Any) -> str | None:
    """All text of a prompt; None where a payload holds none."""
    payload = _parsed(payload)
    if isinstance(payload, dict) and "payload" in payload:
        payload = _parsed(payload["payload"])
    if not isinstance(payload, dict):
        return None
    if isinstance(payload.get("messages"), list):
        return "".join(_content(m.get("content")) for m in payload["messages"] if isinstance(m, dict))
    for name in _PROMPTS:
        value = payload.get(name)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            return "".join(value)
    return None


def output_cap(payload: Any) -> int | None:
    """How many tokens a payload asks for at most."""
    payload = _parsed(payload)
    if not isinstance(payload, dict):
        return None
    for name in _CAPS:
        value = payload.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def answered(pieces: Any) -> Answer:
    """Lengths of an answer: the server's own count where it sent one, else pieces that hold text."""
    with_text = 0
    for piece in pieces if isinstance(pieces, list) else []:
        text = piece.get("response") if isinstance(piece, dict) else None
        for line in text.splitlines() if isinstance(text, str) else []:
            data = _parsed(line.removeprefix("data:").strip())
            if not isinstance(data, dict):
                continue
            usage = data.get("usage")
            if isinstance(usage, dict) and usage.get("completion_tokens"):
                return Answer(int(usage["completion_tokens"]), usage.get("prompt_tokens"))
            with_text += _has_text(data)
    return Answer(with_text or None)


def _has_text(data: dict[str, Any]) -> bool:
    choices = data.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        part = choice.get("delta") or choice.get("message") or choice if isinstance(choice, dict) else {}
        if any(part.get(name) for name in ("content", "text", "reasoning_content")):
            return True
    return bool(data.get("text_output"))


def _content(value: Any) -> str:
    if isinstance(value, list):
        return "".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return value if isinstance(value, str) else ""


def _parsed(value: Any) -> Any:
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json_of(value)
    except ValueError:
        return value
