"""No request is shed."""

from __future__ import annotations

from windtunnel.serving.admission.base import ADMISSION
from windtunnel.serving.event_loop.twin.admission import Admission


@ADMISSION.register("all")
class All(Admission):
    """Everybody comes in."""

    id = "all"
    title = "No request is shed"
    source = "vLLM, SGLang: no limit on the queue"
