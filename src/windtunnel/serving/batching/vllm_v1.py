"""vLLM since 0.8: decodes first, then prompt chunks, in one token budget; a prompt enters when all of it has room."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("vllm_v1")
class VllmV1(BatchPolicy):
    """One budget for prompts and decodes."""

    id = "vllm_v1"
    title = "One budget for prompts and decodes"
    source = (
        "vLLM v1/core/sched/scheduler.py; config/scheduler.py: watermark 0.0, scheduler_reserve_full_isl; "
        "v1/core/kv_cache_manager.py, allocate_slots: blocks are entered in the table of known content there"
    )
    switches = {"mixed": True, "chunked": True, "early": True}
    watermark = 0.0
