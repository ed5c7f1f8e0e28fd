"""Nobody is turned away."""

from __future__ import annotations

from windtunnel.serving.admission.base import ADMISSION
from windtunnel.serving.event_loop.twin.admission import Admission


@ADMISSION.register("all")
class All(Admission):
    """Everybody comes in."""

    id = "all"
    title = "Nobody is turned away"
    source = "vLLM, SGLang: no limit on the line"
