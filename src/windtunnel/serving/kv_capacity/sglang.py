"""SGLang: `mem_fraction_static` of what is free at start holds weights and cache; the rest is for activations."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.kv_capacity.base import CONTEXT_BYTES, GIB, RULES, Memory

SWA_FULL_TOKENS_RATIO = 0.8


class SglangMemory:
    """Weights and cache together."""

    knob: ClassVar[str] = "mem_fraction_static"
    source: ClassVar[str] = (
        "SGLang model_executor/model_runner.py, profile_max_num_token: available − total · (1 − mem_fraction_static); "
        "server_args.py: swa_full_tokens_ratio 0.8"
    )

    def cache_bytes(self, memory: Memory) -> tuple[float, str]:
        """See `MemoryRule`."""
        start = memory.visible - CONTEXT_BYTES - memory.outside
        left = memory.fraction * start - memory.weights
        return left, (
            f"{self.knob} {memory.fraction:.3f} of {start / GIB:.2f} GiB free at start, less weights "
            f"{memory.weights / GIB:.2f} GiB"
        )

    def windowed(self, version: tuple[int, ...]) -> float | None:
        """Layers with a window have a pool of their own since 0.4.7."""
        return SWA_FULL_TOKENS_RATIO if version >= (0, 4, 7) else 1.0


RULES.add("sglang", SglangMemory())
