"""TensorRT-LLM with MAX_UTILIZATION: requests enter while blocks are free; the newest is paused when they run out."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("trtllm_max_utilization")
class TrtllmMaxUtilization(BatchPolicy):
    """In-flight batching, overcommitted."""

    id = "trtllm_max_utilization"
    title = "In-flight batching, overcommitted"
    source = "TensorRT-LLM llmapi/llm_args.py: capacity_scheduler_policy MAX_UTILIZATION"
    switches = {"mixed": True, "chunked": False}
    watermark = 0.0
