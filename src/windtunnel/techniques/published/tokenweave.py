"""What `tokenweave.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.program.segment import Launch, Segment
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import ServingBatch, ServingLayers, served, side_by_side

ELEMENT_BYTES = 2.0
CORNER = 3.0
"""Exponent of the smooth maximum of what links and SMs take, as products have it at the corner of their roofline."""
SM_MEMORY_BYTES_PER_S = 35e9
SM_SWITCH_BYTES_PER_S = 22e9
"""What one SM streams of its own memory, and reads and writes through the switch: a norm of an eighth of the rows with
2 to 8 blocks, an all-reduce with 2.

Source: H100 rows of the artifact (github.com/microsoft/tokenweave, artifacts_results, figures 4 and 7). With these the
fused kernel's own rows (2 to 16 blocks, 2,048 to 32,768 rows) come out within 10 %. Valid for: Hopper.
"""


def _fused(launches: list[Launch], batch: ServingBatch, layers: ServingLayers, knobs: dict[str, Any]) -> list[Launch]:
    """Reductions with the norm that follows, of this layer or (the last one) of the next."""
    norms = [i for i, x in enumerate(launches) if x.tag == "memory_bound" and x.name.endswith("_norm")]
    whole = layers.data_ranks == 1  # what brings results of experts home is then an all-reduce like the others
    sends = [i for i, x in enumerate(launches) if x.name.startswith("tp_reduce_") or (whole and x.name == "combine")]
    if len(norms) != len(sends) or not sends:
        return launches
    size = batch.tokens / layers.data_ranks * layers.hidden_size * ELEMENT_BYTES
    moved_s = layers.in_switch_s(size)
    out: list[Launch] = []
    # the norm before the first product of a layer belongs to the last reduction of the layer before
    follows = {send: norms[(j + 1) % len(norms)] for j, send in enumerate(sends)}
    for i, launch in enumerate(launches):
        if i in norms:
            continue
        if i not in follows:
            out.append(launch)
            continue
        norm = launches[follows[i]]
        sms = float(knobs["comm_sms"] if launch.name == "tp_reduce_proj" else knobs["mlp_sms"] or knobs["comm_sms"])
        share = sms / max(layers.cluster.device.num_sms, 1)
        normed = norm.hbm_bytes / layers.tp
        by_sms = 2.0 * size / layers.tp / (sms * SM_SWITCH_BYTES_PER_S) + normed / (sms * SM_MEMORY_BYTES_PER_S)
        link_s = launch.alone_s if moved_s is None else moved_s
        sent_s = float((link_s**CORNER + by_sms**CORNER) ** (1.0 / CORNER))
        kernel = replace(
            launch, name=f"{launch.name}_{norm.name}", alone_s=sent_s, sm=share, hbm_bytes=launch.hbm_bytes + normed
        )
        out.append(kernel)
    return out


def _layers(layers: ServingLayers, knobs: dict[str, Any]) -> Segment | None:
    if layers.batch.tokens < knobs["threshold"]:
        return None
    half = layers.launches(layers.batch.part(0.5))
    return side_by_side([half, half], layers.count)


def applies_to(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    sizes = [pool.plan.tp for pool in scenario.serving.pools] or [scenario.plan.tp]
    return None if max(sizes) > 1 else "there is no tensor parallelism to overlap"


serving = ServingPart(launches=_fused, layers=_layers, breaks=lambda knobs: (int(knobs["threshold"]),))
