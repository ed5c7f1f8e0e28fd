"""Conversations, a JSON array or lines of {"conversations": [{"from": "human" | "gpt", "value"}]}, as in ShareGPT.

LMSYS-Chat and WildChat name the list `conversation`, chat data sets `messages`, with {"role", "content"}.

Text without times: tokens are counted by characters, arrivals come from the scenario. Each answer of the model is a
request; its prompt adds the messages since the answer before.

Source: files that vLLM's and SGLang's benchmarks read as dataset `sharegpt`; cards of lmsys-chat-1m and WildChat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from windtunnel.errors import UNSET
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace

_ANSWERS = frozenset({"gpt", "assistant", "chatgpt", "bing", "bard", "model"})
_LISTS = ("conversations", "conversation", "messages")
_NAMES = (("from", "value"), ("role", "content"))


def _detect(head: Head) -> bool:
    if any(isinstance(head.record.get(name), list) for name in _LISTS):
        return not {"body", "timestamp_ms"} & head.record.keys()
    return any(head.opens("[", name) for name in _LISTS[:2]) or head.opens("[", "messages", "role", "content")


def _read(source: Source) -> RequestTrace:
    new, answers, session, turn = [], [], [], []
    unanswered = empty = 0
    for number, (line, item) in enumerate(_items(source)):
        waiting, turns = "", 0
        for place, message in enumerate(item):
            field = f"conversations.{place}"
            who, text = _said(message)
            if text is None:
                rule = 'must be {"from": name, "value": text} or {"role": name, "content": text}'
                source.bad(line, field if line else f"{number}.{field}", rule, message)
                continue
            if who not in _ANSWERS:
                waiting += text
            elif not waiting or not text:
                empty += 1  # an answer to nothing, or none: part of what the next turn's prompt holds
                waiting += text
            else:
                new.append(source.tokens(waiting))
                answers.append(source.tokens(text))
                session.append(number)
                turn.append(turns)
                waiting, turns = "", turns + 1
        unanswered += bool(waiting)
    source.check()
    source.drop(unanswered, "last messages without an answer")
    source.drop(empty, "answers that are empty or answer nothing")
    source.assume_characters()
    first = np.unique(np.array(session, np.int64), return_inverse=True)[1]
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=np.array(new, np.int32),
        output_tokens=np.array(answers, np.int32),
        session=first.astype(np.int64),
        turn=np.array(turn, np.int64),
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )


def _items(source: Source) -> Iterator[tuple[int | None, list[Any]]]:
    """Conversations, with their lines where each has one."""
    with source.open() as stream:
        whole = stream.read(64).lstrip().startswith("[")
    records: Iterator[tuple[int | None, Any]] = iter(
        [(None, item) for item in source.document()] if whole else source.records()
    )
    for number, (line, item) in enumerate(records):
        messages = next((item[name] for name in _LISTS if name in item), None) if isinstance(item, dict) else None
        if isinstance(messages, list):
            yield line, messages
        else:
            rule = "must be a list of messages" if isinstance(item, dict) else "must be an object with conversations"
            value = item.get("conversations", UNSET) if isinstance(item, dict) else item
            source.bad(line, "conversations" if line else f"{number}.conversations", rule, value)


def _said(message: Any) -> tuple[str, str | None]:
    if isinstance(message, dict):
        for who, what in _NAMES:
            if isinstance(message.get(who), str) and isinstance(message.get(what), str):
                return message[who].casefold(), message[what]
    return "", None


TRACES.add("sharegpt", TraceFormat("conversations of ShareGPT, LMSYS or WildChat (JSON)", _detect, _read))
