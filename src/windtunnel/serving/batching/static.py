"""Static batches: the next batch is admitted when all requests of the one before have ended."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("static")
class Static(BatchPolicy):
    """Static batches."""

    id = "static"
    title = "Static batches"
    source = "Yu et al., Orca, OSDI 2022, section 2 (request-level scheduling)"
    switches = {"mixed": False, "chunked": False, "static": True, "reserve": True}
    watermark = 0.0
