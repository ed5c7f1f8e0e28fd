"""What `hexgen-text2sql.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    serving = with_pools(serving, lambda _: {"queue": "stage_urgency"})
    return serving.model_copy(update={"router": {"speed_and_queue": {"alpha": knobs["alpha"]}}})


applies_to = served
serving = ServingPart(settings=_settings)
