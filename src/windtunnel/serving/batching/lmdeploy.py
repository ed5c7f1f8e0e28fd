"""LMDeploy: new prompts are computed whole in the iteration of the running batch; the newest gives its blocks back.

Its switches are those of `trtllm_max_utilization`: the two differ in name and source, not in what is simulated.
"""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("lmdeploy")
class Lmdeploy(BatchPolicy):
    """Persistent batch."""

    id = "lmdeploy"
    title = "Persistent batch"
    source = "LMDeploy turbomind, LlamaBatch (persistent batch; max_prefill_token_num)"
    switches = {"mixed": True, "chunked": False}
    watermark = 0.0
