"""What `semi-pd.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.specs.serving import ServingSpec
from windtunnel.specs.sm_split import SmSplitSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import served, with_pools


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    spec = SmSplitSpec(
        prefill_share=float(knobs["prefill_share"]),
        decode_share=knobs["decode_share"],
        controller=knobs["controller"],
        period_s=float(knobs["period_s"]),
    )
    return with_pools(serving, lambda _: {"sm_split": spec})


applies_to = served
serving = ServingPart(settings=_settings)
