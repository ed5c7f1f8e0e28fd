"""What `dual-batch-overlap.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.program.segment import Launch, Segment
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import ServingBatch, ServingLayers, served, side_by_side

OUT_SHARE = 1.0 / 3.0
"""Share of an exchange's bytes that travels out: 8 bits out, 16 back."""


def _split(launches: list[Launch], _batch: ServingBatch, layers: ServingLayers, knobs: dict[str, Any]) -> list[Launch]:
    """The exchange as two, on few SMs."""
    share = float(knobs["comm_sms"]) / max(layers.cluster.device.num_sms, 1)
    out = [replace(x, sm=share) if x.tag == "ep" else x for x in launches]
    at = next((i for i, x in enumerate(out) if x.tag == "ep"), None)
    first = next((i for i, x in enumerate(out) if x.name.startswith("expert_")), None)
    if at is None or first is None or layers.ranks == layers.tp:
        return out
    whole = out.pop(at)
    back = replace(
        whole, alone_s=whole.alone_s * (1.0 - OUT_SHARE), hbm_bytes=whole.hbm_bytes * (1.0 - OUT_SHARE), kernels=0.5
    )
    there = replace(
        whole, name="dispatch", alone_s=whole.alone_s * OUT_SHARE, hbm_bytes=whole.hbm_bytes * OUT_SHARE, kernels=0.5
    )
    out.insert(at, back)
    out.insert(first, there)
    return out


def _layers(layers: ServingLayers, knobs: dict[str, Any]) -> Segment | None:
    if layers.batch.tokens < knobs["threshold"] * layers.data_ranks:
        return None
    half = layers.launches(layers.batch.part(0.5))
    if not any(x.tag == "ep" for x in half):
        return None
    return side_by_side([half, half], layers.count)


def applies_to(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    pools = scenario.serving.pools
    some = any(pool.plan.dp > 1 for pool in pools) or (not pools and scenario.plan.dp not in (1, "auto"))
    return None if some else "no experts are exchanged: attention is not data parallel (dp)"


serving = ServingPart(launches=_split, layers=_layers)
