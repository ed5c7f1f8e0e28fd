"""What `splitwise.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import limits_of_split, split_pools, splits


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    transfer = {"mode": "layers", "first_token": "prefill", "reserve_first": True}
    return split_pools(serving, float(knobs["token_share"]), transfer)


applies_to = splits
serving = ServingPart(settings=_settings)
limits = limits_of_split("token_share")
