"""TensorRT-LLM: `free_gpu_memory_fraction` of what a profiling run with full batches left free."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.kv_capacity.base import CONTEXT_BYTES, GIB, RULES, Memory


class TrtllmMemory:
    """A share of what is left."""

    knob: ClassVar[str] = "free_gpu_memory_fraction"
    source: ClassVar[str] = (
        "TensorRT-LLM _torch/pyexecutor/_util.py: (total − peak of weights, activations and non-torch) · fraction"
    )

    def cache_bytes(self, memory: Memory) -> tuple[float, str]:
        """See `MemoryRule`."""
        peak = memory.weights + memory.activations + memory.outside + CONTEXT_BYTES
        left = memory.fraction * (memory.visible - peak)
        return left, (
            f"{self.knob} {memory.fraction:g} of {(memory.visible - peak) / GIB:.2f} GiB left by weights "
            f"{memory.weights / GIB:.2f}, activations {memory.activations / GIB:.2f}, others "
            f"{(peak - memory.weights - memory.activations) / GIB:.2f} GiB"
        )

    def windowed(self, version: tuple[int, ...]) -> float | None:
        """Pools by window length; only the window is kept."""
        return None


RULES.add("trtllm", TrtllmMemory())
