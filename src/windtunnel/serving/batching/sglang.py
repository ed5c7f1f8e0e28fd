"""SGLang: prompt chunks come before decodes; admission leaves room for a share of the answers to come.

The share starts at 0.7, falls to 0.14 of that within 600 decode steps, and is set to what the batch has made once
requests had to be preempted (environ.py: SGLANG_INIT_NEW_TOKEN_RATIO, _MIN_NEW_TOKEN_RATIO_FACTOR, _DECAY_STEPS,
SGLANG_RETRACT_DECODE_STEPS). Those that made least are preempted, the longest prompt first; with drafted tokens the
last of the batch (ScheduleBatch.retract_decode). They wait at the end of the queue (Scheduler.update_running_batch).
"""

from __future__ import annotations

from windtunnel.serving.batching.base import POLICIES, BatchPolicy


@POLICIES.register("sglang")
class Sglang(BatchPolicy):
    """Prompts first, in chunks."""

    id = "sglang"
    title = "Prompts first, in chunks"
    source = "SGLang managers/scheduler.py and schedule_policy.py (enable_mixed_chunk off)"
    switches = {
        "mixed": False,
        "chunked": True,
        "ratio_start": 700_000,
        "ratio_least": 98_000,
        "ratio_decay": 1_003,
        "retract": 20,
        "least_made": True,
        "taken_last": True,
    }
    watermark = 0.0
