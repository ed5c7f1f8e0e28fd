"""TensorRT-LLM: whole prompts run next to decodes; a request enters with room for its answer and is never evicted."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("trtllm_inflight")
class TrtllmInflight(BatchPolicy):
    """In-flight batching, guaranteed."""

    id = "trtllm_inflight"
    title = "In-flight batching, guaranteed"
    source = "TensorRT-LLM llmapi/llm_args.py: capacity_scheduler_policy GUARANTEED_NO_EVICT, no chunked prefill"
    switches = {"mixed": True, "chunked": False, "reserve": True}
    watermark = 0.0
