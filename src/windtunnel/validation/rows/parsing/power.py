"""Rows of power of served models: what was served where, and how far the batch was full.

Lengths are not stated. Those of the benchmark's two tasks are public means over models: answers of 717 tokens
(conversation) and 6,988 (problems solved with reasoning on), source: ML.ENERGY, "Diagnosing inference energy
consumption with the ML.ENERGY Leaderboard v3.0" (December 2025). Prompts and the spread of lengths are assumed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from windtunnel import catalog
from windtunnel.errors import WindtunnelError
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingPlan, ServingPrecision
from windtunnel.validation.rows.parsing.hardware import canonical_device
from windtunnel.validation.rows.parsing.loose_values import count, number, words

_LENGTHS = {"chat": (250.0, 717.0), "gpqa": (250.0, 6988.0)}
"""Task → mean tokens of prompt and answer."""
LENGTH_CV = 0.6
"""Standard deviation over mean of answers: what is resident on average is the longer half."""
Assumed = tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerCase:
    """One row, read: configuration alone."""

    model: ModelSpec
    cluster: ClusterRef
    plan: ServingPlan
    precision: ServingPrecision
    batch: float
    """Sequences that decode at a time, mean over the run."""
    prompt_tokens: float
    answer_tokens: float
    assumed: Assumed

    @property
    def resident_tokens(self) -> float:
        """Mean tokens in the cache of a decoding sequence: longer answers are met more often."""
        return self.prompt_tokens + 0.5 * self.answer_tokens * (1.0 + LENGTH_CV**2)


def is_power_row(row: dict[str, Any]) -> bool:
    """Whether a row measured the power of a served model."""
    return "avg_power_W_reported" in row or ("energy_per_token_J" in row and "num_gpus" in row)


def device_of(row: dict[str, Any]) -> str:
    """Canonical device id, or the row's own word."""
    own = row.get("gpu")
    return canonical_device(own) or str(own or "unknown")


def read_power(row: dict[str, Any]) -> PowerCase | str:
    """The configuration of a row, or why it cannot be determined."""
    name = str(row.get("model") or "")
    model = _model(name)
    if model is None:
        return f"model {name} is not in the catalogue"
    device = canonical_device(row.get("gpu"))
    if device is None:
        return f"gpu {row.get('gpu')} is not in the catalogue"
    gpus = count(row.get("num_gpus")) or 1
    batch = number(row.get("avg_batch_size")) or number(row.get("max_num_seqs"))
    if not batch or batch <= 0.0:
        return "neither avg_batch_size nor max_num_seqs is stated"
    precision = _precision(words(row.get("precision")))
    if precision is None:
        return f"precision {row.get('precision')} is not known"
    task = words(row.get("task"))
    known = next((v for k, v in _LENGTHS.items() if k in task), None)
    prompt, answer = known or _LENGTHS["chat"]
    assumed = [
        ("plan", f"tp {gpus}", "axes not stated; tensor parallelism over all devices"),
        ("traffic.input_tokens", f"{prompt:g}", "not stated"),
        (
            "traffic.output_tokens",
            f"{answer:g}",
            "not stated; mean of the task over models" if known else "task not known; as conversations",
        ),
    ]
    return PowerCase(
        model=model,
        cluster=ClusterRef(device=device, nodes=-(-gpus // 8), devices_per_node=8),
        plan=ServingPlan(tp=gpus),
        precision=precision,
        batch=batch,
        prompt_tokens=prompt,
        answer_tokens=answer,
        assumed=tuple(assumed),
    )


def _model(name: str) -> ModelSpec | None:
    for text in (name, re.sub(r"-(fp8|nvfp4|fp4|bf16)$", "", name, flags=re.IGNORECASE)):
        try:
            return catalog.model(text)
        except WindtunnelError:
            continue
    return None


def _precision(text: str) -> ServingPrecision | None:
    if "mxfp4" in text:
        return ServingPrecision(weights="bf16", experts="mxfp4")
    if "nvfp4" in text or text == "fp4":
        return ServingPrecision(weights="nvfp4")
    if "fp8" in text or "float8" in text:
        return ServingPrecision(weights="fp8")
    if "bf16" in text or "bfloat16" in text or "fp16" in text or "float16" in text:
        return ServingPrecision(weights="bf16")
    return None
