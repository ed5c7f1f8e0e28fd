"""vLLM: `gpu_memory_utilization` of all memory, less weights, the profiled peak of activations and others."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.kv_capacity.base import CONTEXT_BYTES, GIB, RULES, Memory

GRAPHS_BYTES = 0.4 * GIB
"""Estimate of captured graphs (logs: 0.26–0.58 GiB)."""
GRAPHS_SINCE, HYBRID_SINCE, CONTEXT_UNTIL = (0, 21), (0, 9, 2), (0, 10)


class VllmMemory:
    """The profiled budget."""

    knob: ClassVar[str] = "gpu_memory_utilization"
    source: ClassVar[str] = (
        "vLLM v1/worker/gpu_worker.py, determine_available_memory; graphs are counted since 0.21 (its start-up log); "
        "the first V1 releases count the CUDA context"
    )

    def cache_bytes(self, memory: Memory) -> tuple[float, str]:
        """See `MemoryRule`."""
        v1 = memory.version >= (0, 8)
        context = CONTEXT_BYTES if v1 and memory.version < CONTEXT_UNTIL else 0.0
        graphs = GRAPHS_BYTES if memory.cuda_graphs and memory.version >= GRAPHS_SINCE else 0.0
        other = memory.outside + context + graphs
        left = memory.fraction * memory.visible - memory.weights - memory.activations - other
        return left, (
            f"{self.knob} {memory.fraction:g} of {memory.visible / GIB:.2f} GiB, less weights "
            f"{memory.weights / GIB:.2f}, activations {memory.activations / GIB:.2f}, others {other / GIB:.2f} GiB"
        )

    def windowed(self, version: tuple[int, ...]) -> float | None:
        """Groups of layers share one pool of blocks since the hybrid allocator (0.9.2); before, all tokens are kept."""
        return None if version >= HYBRID_SINCE else 1.0


RULES.add("vllm", VllmMemory(), aliases=("generic",))
