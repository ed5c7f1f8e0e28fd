"""Prompts as vLLM's benchmark reads them as dataset `custom`: JSON lines with `prompt` and perhaps `output_tokens`.

Text without times: tokens are counted by characters, arrivals come from the scenario. An answer has the length that is
stated, else that of its text; where there is neither, the scenario sets `output_tokens`.

Source: CustomDataset of vllm/benchmarks/datasets.
"""

from __future__ import annotations

import numpy as np

from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace

_ANSWERS = ("output_tokens", "output_len", "expected_output_len", "max_tokens", "output_tokens_count")
_TEXTS = ("completion", "response", "output", "answer")
_OTHERS = frozenset({"timestamp", "chosen", "rejected", "custom_id", "input_tokens", "prompt_tokens", "hash_ids"})
"""What prompts for a benchmark do not hold: times or counts (other formats), pairs of answers (training)."""


def _detect(head: Head) -> bool:
    record = head.record
    return isinstance(record.get("prompt"), str) and not _OTHERS & record.keys()


def _read(source: Source) -> RequestTrace:
    inputs: list[int] = []
    outputs: list[int] = []
    for line, one in source.records():
        if not isinstance(one.get("prompt"), str):
            source.bad(line, "prompt", "must be text", one.get("prompt"))
            continue
        inputs.append(source.tokens(one["prompt"]))
        name = next((name for name in _ANSWERS if one.get(name) is not None), None)
        text = next((one[key] for key in _TEXTS if isinstance(one.get(key), str) and one[key]), "")
        outputs.append(source.count(line, name, one[name], 1) if name else source.tokens(text) if text else 0)
    source.check()
    source.assume_characters()
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=np.array(inputs, np.int32),
        output_tokens=np.array(outputs, np.int32),
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )


TRACES.add("vllm_custom", TraceFormat("prompts for vLLM's benchmark, dataset custom (JSON lines)", _detect, _read))
