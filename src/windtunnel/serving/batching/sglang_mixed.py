"""SGLang with `--enable-mixed-chunk`: decodes run in the iterations that hold prompt chunks; admission as ever."""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES
from windtunnel.serving.batching.sglang import Sglang


@POLICIES.register("sglang_mixed")
class SglangMixed(Sglang):
    """Prompts and decodes together, in chunks."""

    id = "sglang_mixed"
    title = "Prompts and decodes together, in chunks"
    source = "SGLang managers/scheduler.py (enable_mixed_chunk: mix_with_running)"
    switches = {**Sglang.switches, "mixed": True}
