"""What `trail.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    return with_pools(serving, lambda _: {"queue": {"srtf": dict(knobs)}})


applies_to = served
serving = ServingPart(settings=_settings)
