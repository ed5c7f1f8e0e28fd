"""LMDeploy: `cache_max_entry_count` of the memory that is free once weights are loaded."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.kv_capacity.base import CONTEXT_BYTES, GIB, RULES, Memory


class LmdeployMemory:
    """A share of what weights leave; its knob is written as `free_gpu_memory_fraction`."""

    knob: ClassVar[str] = "free_gpu_memory_fraction"
    source: ClassVar[str] = "LMDeploy messages.py: cache_max_entry_count, of free memory since 0.2.2, of all before"

    def cache_bytes(self, memory: Memory) -> tuple[float, str]:
        """See `MemoryRule`."""
        free = memory.visible - memory.weights - memory.outside - CONTEXT_BYTES
        of_all = bool(memory.version) and memory.version < (0, 2, 2)
        left = min(memory.fraction * (memory.visible if of_all else free), free)
        return left, (
            f"cache_max_entry_count {memory.fraction:g} of {(memory.visible if of_all else free) / GIB:.2f} GiB "
            f"{'of the device' if of_all else 'left by weights'} ({memory.weights / GIB:.2f} GiB)"
        )

    def windowed(self, version: tuple[int, ...]) -> float | None:
        """Every token is kept."""
        return 1.0


RULES.add("lmdeploy", LmdeployMemory())
