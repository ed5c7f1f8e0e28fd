"""What `kvshare.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.kv_tiers import SimilarSpec
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    own = SimilarSpec(share=knobs["share"], matched=knobs["matched"], recomputed=knobs["recomputed"])
    on = {"prefix_caching": True, "similar": own}
    return with_pools(
        serving,
        lambda pool: {
            "kv": pool.kv.model_copy(update=on),
            "queue": "lpm" if knobs["by_hits"] and pool.queue == "fcfs" else pool.queue,
        },
    )


applies_to = served
serving = ServingPart(settings=_settings)
