"""Batch limits that TensorRT-LLM's `trtllm-bench` picks for an offline run that states none."""

from __future__ import annotations

import math
from dataclasses import dataclass

from windtunnel import catalog
from windtunnel.catalog.parameters import count_parameters
from windtunnel.serving.engine_defaults.base import version_of
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingPlan
from windtunnel.validation.rows.parsing.pattern_tables import matches, table

TUNED_SINCE = (0, 17)
_TUNED = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5}
"""Bytes an element that its estimate takes, of the formats that it knows."""
_STORED = {"nvfp4": 0.5 + 1.0 / 16}
"""Elements of a checkpoint for each weight: two 4-bit values are one element, scales count too."""
DEFAULT = (2048, 8192)


@dataclass(frozen=True, slots=True)
class BenchLoad:
    """The offline run whose batch limits are asked for."""

    isl: int
    """Prompt tokens of a request."""
    osl: int
    """Answer tokens of a request."""
    cache: str
    """Number format of the KV cache."""
    device: str
    """Catalogue id."""
    version: str
    """Release of TensorRT-LLM."""


def bench_limits(
    model: ModelSpec, formats: dict[str, str], plan: ServingPlan, load: BenchLoad, *, fraction: float = 0.95
) -> tuple[int, int, str]:
    """Sequences and tokens of a batch, and where they come from.

    Source: TensorRT-LLM `bench/build/tuning.py` (`calc_engine_setting`) since 0.17, `benchmark_config.yml` before. The
    estimate takes all heads of a model at their plain size, knows no attention data parallelism, and leaves formats
    outside of `_TUNED` at the defaults.

    Args:
        model: the served model.
        formats: number formats of `weights` and, where they differ, of `experts`.
        plan: axes of the instance.
        load: lengths, cache format, device and release.
        fraction: share of free memory that the cache takes.
    """
    isl, osl = load.isl, load.osl
    release = version_of(load.version)
    if release and release < TUNED_SINCE:
        for known in table("serving_launch")["trtllm_bench"]:
            own = known["tp"].get(plan.num_devices) if matches(known["model"], model.name.lower()) else None
            if own is not None:
                seqs, tokens = own.get(isl + osl, own["general"])
                return int(seqs), int(tokens), "TensorRT-LLM bench/build/benchmark_config.yml, by model and devices"
        return *DEFAULT, "TensorRT-LLM builder.py: its defaults, for models without settings of their own"
    main = formats.get("experts") or formats["weights"]
    if main not in _TUNED:
        return *DEFAULT, "TensorRT-LLM bench/build/build.py: its defaults, for formats that its estimate does not know"
    tp, gpus = plan.tp * plan.dp, plan.num_devices
    size = model.head_dim or model.hidden_size // model.num_attention_heads
    heads = max(model.num_key_value_heads or model.num_attention_heads, tp)
    token = 2.0 * model.num_hidden_layers * heads * size * (1.0 if load.cache in ("fp8", "int8") else 2.0)
    weights = count_parameters(model).total * _STORED.get(main, 1.0) * _TUNED[main]
    free = catalog.device(load.device).memory_bytes * gpus - weights
    longest = fraction * free / (token * (isl + osl))
    return *_tuned(longest, isl, osl, plan.pp), "TensorRT-LLM bench/build/tuning.py, from weights, cache and lengths"


def _tuned(requests: float, isl: int, osl: int, pp: int) -> tuple[int, int]:
    """Rounded upwards, as `finetune_setting` does: for one of the micro-batches that fill a pipeline's stages."""
    seqs = min(requests, 4096.0) / pp
    tokens = min(seqs * (1.0 + isl / osl), 32768.0)
    step = 32 if seqs < 256 else 128 if seqs < 1024 else 256
    most = max(step * math.ceil(seqs / step), 64)
    grain = 256 if tokens < 4096 else 512 if tokens < 8192 else 1024
    return most * pp, max(grain * math.ceil(tokens / grain), 2048)
