"""Flover: a new request's prompt runs by itself, then it joins the running batch; buffers hold the longest answer."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("flover")
class Flover(BatchPolicy):
    """Whole prompts first, then one fused batch; no paged cache."""

    id = "flover"
    title = "Temporal fusion"
    source = "Yao et al. 2023, Flover: A Temporal Fusion Framework, section 4"
    switches = {"mixed": False, "chunked": False, "reserve": True}
    reserves_longest = True
