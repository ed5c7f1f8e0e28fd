"""Dynamic SplitFuse: long prompts are cut and short ones joined so that each pass computes the budget and no more.

Its switches are those of `vllm_v1`: the two differ in name and source, not in what is simulated.
"""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("splitfuse")
class SplitFuse(BatchPolicy):
    """Forward passes of one size."""

    id = "splitfuse"
    title = "Forward passes of one size"
    source = "Holmes et al., DeepSpeed-FastGen (arXiv 2401.08671), section 3"
    switches = {"mixed": True, "chunked": True}
    watermark = 0.0
