"""What the engine of a pool will log when it starts: its weights, its cache and its concurrency, in its own words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from windtunnel.serving.deployment import Pool
from windtunnel.serving.iteration.attention import cached_bytes, layer_counts, state_bytes
from windtunnel.serving.kv_capacity.base import GIB

DERIVED_TOKENS_SINCE = (0, 20, 1)
"""Release of vLLM since which "GPU KV cache size" is concurrency times max_model_len (kv_cache_utils.py,
_report_kv_cache_config); before, blocks are shared out evenly to the groups of layers (vllm-project/vllm issue 40691:
0.19; noonghunna/club-3090 issue 91: 0.20.1)."""
V1, V0_BLOCK = (0, 8), 16
NEAR = 1.25
"""Numbers of layers of two kinds below this ratio make groups of the larger size (kv_cache_utils.py)."""
ALIGN = 16
CACHED_STATES = 2
"""Blocks of recurrent state a sequence while prefixes are cached (mamba_cache_mode align); else one."""


@dataclass(frozen=True, slots=True)
class EngineLog:
    """Start-up figures of one engine process; GiB are of one device."""

    weights_gib: float
    available_kv_gib: float
    kv_tokens: int
    max_concurrency: float
    """Requests of max_model_len tokens that fit at once; infinite where no length is known."""
    starts: bool
    words: tuple[str, ...]
    """The lines as the engine writes them."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "weights_gib": self.weights_gib,
            "available_kv_gib": self.available_kv_gib,
            "kv_tokens": self.kv_tokens,
            "max_concurrency": self.max_concurrency,
            "starts": self.starts,
            "words": list(self.words),
        }


def engine_log(pool: Pool) -> EngineLog:
    """Say what the engine of a pool will log: of one rank of attention data parallelism."""
    own = pool.instance
    engine = own.defaults.memory_rule
    tokens = own.capacity.tokens // max(own.shape.dp, 1)
    longest = own.max_model_len
    concurrency = tokens / longest if longest else math.inf
    if engine == "vllm" and (counted := _vllm_tokens(pool)) is not None:
        tokens, concurrency = counted
    starts = tokens > 0 and (not own.defaults.fits_longest or bool(pool.spec.kv.lending) or concurrency >= 1.0)
    weights, cache = own.capacity.weights_bytes / GIB, own.capacity.cache_bytes / GIB
    log = EngineLog(weights, cache, tokens, concurrency, starts, ())
    old = engine == "vllm" and _release(pool) < V1
    words = (_vllm_v0_words if old else _WORDS.get(engine, _vllm_words))(log, longest)
    if not starts:
        words = (*words, _refusal(longest, concurrency, cache))
    return EngineLog(weights, cache, tokens, concurrency, starts, words)


def _refusal(longest: int, concurrency: float, cache: float) -> str:
    need = cache / concurrency if concurrency else 0.0
    return (
        f"ValueError: To serve at least one request with the model's max seq len ({longest}), {need:.2f} GiB KV cache "
        f"is needed, which is larger than the available KV cache memory ({cache:.2f} GiB)"
    )


def _vllm_words(log: EngineLog, longest: int) -> tuple[str, ...]:
    return (
        f"Model loading took {log.weights_gib:.2f} GiB",
        f"Available KV cache memory: {log.available_kv_gib:.2f} GiB",
        f"GPU KV cache size: {log.kv_tokens:,} tokens",
        f"Maximum concurrency for {longest:,} tokens per request: {log.max_concurrency:.2f}x",
    )


def _vllm_v0_words(log: EngineLog, longest: int) -> tuple[str, ...]:
    return (
        f"Loading model weights took {log.weights_gib:.4f} GB",
        f"the rest of the memory reserved for KV Cache is {log.available_kv_gib:.2f}GiB",
        f"# GPU blocks: {log.kv_tokens // V0_BLOCK}",
        f"Maximum concurrency for {longest} tokens per request: {log.max_concurrency:.2f}x",
    )


def _sglang_words(log: EngineLog, longest: int) -> tuple[str, ...]:
    half = log.available_kv_gib / 2.0
    return (
        f"Load weight end. mem usage={log.weights_gib:.2f} GB.",
        f"KV Cache is allocated. #tokens: {log.kv_tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB",
        f"max_total_num_tokens={log.kv_tokens}, context_len={longest}",
    )


def _trtllm_words(log: EngineLog, longest: int) -> tuple[str, ...]:
    return (
        f"Memory used after loading model weights (inside torch): {log.weights_gib:.2f} GiB",
        f"[MemUsageChange] Allocated {log.available_kv_gib:.2f} GiB for max tokens in paged KV cache "
        f"({log.kv_tokens}).",
    )


_WORDS = {"vllm": _vllm_words, "sglang": _sglang_words, "trtllm": _trtllm_words}


# -- vLLM's hybrid caches ----------------------------------------------------------------------------------------------
def _vllm_tokens(pool: Pool) -> tuple[int, float] | None:
    """Tokens and concurrency as vLLM counts them where layers of several kinds share its blocks; None for one kind.

    Source: vLLM v1/core/kv_cache_utils.py: layers of one kind form groups of one size, each block holds one group's
    layers, and a request takes blocks of every group.
    """
    own, model = pool.instance, pool.model
    full, windowed, recurrent = layer_counts(model)
    if own.drafting and own.drafting.network and own.drafting.network.reads_hidden:
        full += sum(own.drafting.network.kinds.values())
    counts = [n for n in (full, windowed, recurrent) if n]
    mixed = own.capacity.window_share > 0.0 or own.capacity.sequence_blocks > 0
    if len(counts) < 2 or not mixed or not full or own.capacity.cache_bytes <= 0.0:
        return None
    layers, smallest = max(counts), min(counts)
    size = layers if layers < NEAR * smallest else smallest
    per_token = cached_bytes(model, own.shape, windowed=False)
    block = own.capacity.block_size
    if recurrent:
        state = state_bytes(model) / own.shape.tp
        block = max(block, math.ceil(state / (ALIGN * per_token)) * ALIGN)
    groups = sum(math.ceil(n / size) for n in counts)
    stage = max(pool.spec.plan.pp, 1)
    blocks = int(own.capacity.cache_bytes // (per_token * block * math.ceil(size / stage)))
    longest, budget = own.max_model_len or own.capacity.tokens, own.limits.budget // max(own.shape.dp, 1)
    request = math.ceil(full / size) * math.ceil(longest / block)
    if windowed:
        kept = min(model.attended_window - 1 + budget, longest)
        request += math.ceil(windowed / size) * (math.ceil(kept / block) + 1)
    if recurrent:
        drafted = own.drafting.tokens if own.drafting else 0
        states = CACHED_STATES if pool.spec.kv.prefix_caching else 1
        request += math.ceil(recurrent / size) * (states + drafted)
    concurrency = blocks / request
    release = _release(pool)
    if release >= DERIVED_TOKENS_SINCE:
        return int(concurrency * longest), concurrency
    return blocks // groups * block, concurrency


def _release(pool: Pool) -> tuple[int, ...]:
    return pool.instance.version or (1 << 20,)
