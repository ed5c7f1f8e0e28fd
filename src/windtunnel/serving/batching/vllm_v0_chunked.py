"""vLLM before 0.8 with chunked prefill, its default for contexts above 32,768 tokens since 0.5.5."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("vllm_v0_chunked")
class VllmV0Chunked(BatchPolicy):
    """Decodes first, prompts in chunks (vLLM 0.4 to 0.7)."""

    id = "vllm_v0_chunked"
    title = "Decodes first, prompts in chunks (vLLM 0.4 to 0.7)"
    source = "vLLM core/scheduler.py, _schedule_chunked_prefill; watermark 0.01"
    switches = {"mixed": True, "chunked": True}
    watermark = 0.01
