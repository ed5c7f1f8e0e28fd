"""vLLM before 0.8: whole prompts come before decodes; the newest request is computed again when blocks run out."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("vllm_v0")
class VllmV0(BatchPolicy):
    """Prompts first, whole."""

    id = "vllm_v0"
    title = "Prompts first, whole"
    source = "Kwon et al., SOSP 2023 (arXiv 2309.06180), section 4.5; vLLM core/scheduler.py up to 0.7, watermark 0.01"
    switches = {"mixed": False, "chunked": False}
    watermark = 0.01
