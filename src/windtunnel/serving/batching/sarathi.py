"""Sarathi-Serve: all decodes, then chunks of prompts up to the token budget; admission as in vLLM at its time.

Its switches are those of `vllm_v0_chunked`: the two differ in name and source, not in what is simulated.
"""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("sarathi")
class Sarathi(BatchPolicy):
    """Stall-free batches of prompt chunks."""

    id = "sarathi"
    title = "Stall-free batches of prompt chunks"
    source = "Agrawal et al., Sarathi-Serve, OSDI 2024 (arXiv 2403.02310), algorithm 3"
    switches = {"mixed": True, "chunked": True}
    watermark = 0.01
