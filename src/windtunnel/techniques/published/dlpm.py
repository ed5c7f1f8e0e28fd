"""What `dlpm.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.serving import ServingPart, served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    weights = {name: knobs[name] for name in ("input_weight", "output_weight")}
    serving = with_pools(serving, lambda _: {"queue": {"dlpm": {**weights, "quantum": knobs["quantum"]}}})
    if not knobs["distributed"]:
        return serving
    return serving.model_copy(update={"router": {"d2lpm": {**weights, "quantum": knobs["worker_quantum"]}}})


applies_to = served
serving = ServingPart(settings=_settings)
