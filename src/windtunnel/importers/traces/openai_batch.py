"""Batches in OpenAI's format, inputs (`custom_id`, `url`, `body`) or results (`response.body.usage`): JSON lines.

All requests are there at once: an offline load. Inputs hold text, counted by characters, and say of an answer the most
that it may hold; results hold the server's own counts.

Source: the OpenAI batch format as vLLM's `run-batch` and SGLang read it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.payloads import output_cap, prompt_text
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace


def _detect(head: Head) -> bool:
    return "custom_id" in head.record and bool({"body", "response"} & head.record.keys())


def _read(source: Source) -> RequestTrace:
    inputs: list[int] = []
    outputs: list[int] = []
    failed = texts = caps = 0
    for line, one in source.records():
        usage = _usage(one.get("response"))
        if "response" in one and usage is None:
            failed += 1
            continue
        if usage is not None:
            inputs.append(source.count(line, "response.body.usage.prompt_tokens", usage.get("prompt_tokens"), 1))
            outputs.append(source.count(line, "response.body.usage.completion_tokens", usage.get("completion_tokens")))
            continue
        text = prompt_text(one.get("body"))
        if text is None:
            source.bad(line, "body", "must hold a prompt: messages, prompt or input", one.get("body"))
            continue
        cap = output_cap(one.get("body")) or 0
        texts += 1
        caps += cap > 0
        inputs.append(source.tokens(text))
        outputs.append(cap)
    source.check()
    source.drop(failed, "failed: no usage in the response")
    if texts:
        source.assume_characters()
    if caps:
        source.assumed.append(("output_tokens", "max_tokens of each body", "the most that an answer may hold"))
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=np.array(inputs, np.int32),
        output_tokens=np.array(outputs, np.int32),
        stated={"offline": True},
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )


def _usage(response: Any) -> dict[str, Any] | None:
    body = response.get("body") if isinstance(response, dict) else None
    usage = body.get("usage") if isinstance(body, dict) else None
    return usage if isinstance(usage, dict) else None


TRACES.add("openai_batch", TraceFormat("a batch of requests in OpenAI's format (JSON lines)", _detect, _read))
