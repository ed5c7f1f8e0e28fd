"""Orca: requests join and leave between iterations; whole prompts run next to decodes; answers have room reserved."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("orca")
class Orca(BatchPolicy):
    """Iteration-level scheduling."""

    id = "orca"
    title = "Iteration-level scheduling"
    source = "Yu et al., Orca, OSDI 2022, algorithm 1"
    switches = {"mixed": True, "chunked": False, "reserve": True}
    reserves_longest = True
    watermark = 0.0
