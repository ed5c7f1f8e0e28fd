"""SGLang: iterations of prompt chunks come before decodes."""

from __future__ import annotations

from windtunnel.serving.policies.base import POLICIES, BatchPolicy


@POLICIES.register("sglang")
class Sglang(BatchPolicy):
    """Prompts first, in chunks."""

    id = "sglang"
    title = "Prompts first, in chunks"
    source = "SGLang managers/scheduler.py and schedule_policy.py (enable_mixed_chunk off)"
    switches = {"mixed": False, "chunked": True}
    watermark = 0.0
