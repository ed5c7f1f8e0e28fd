"""What `fastgen-splitfuse.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import PoolSpec, ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    def change(pool: PoolSpec) -> dict[str, Any]:
        limits = pool.limits.model_copy(
            update={"max_num_batched_tokens": int(knobs["budget"]), "chunked_prefill": True}
        )
        return {"policy": "splitfuse", "limits": limits}

    return with_pools(serving, change)


applies_to = served
serving = ServingPart(settings=_settings)
