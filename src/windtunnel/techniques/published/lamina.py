"""What `lamina.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel import catalog
from windtunnel.errors import BadInput
from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.specs.attention_pool import AttentionPoolSpec
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.serving import ServingBatch, ServingLayers, served, side_by_side, with_pools

OUT, BACK, POOL = f"{COMM}:out", f"{COMM}:back", "attention pool"
"""Queues: to the pool, from it, and the pool itself."""


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    try:
        catalog.device(knobs["device"])  # an unknown one is reported before anything is priced
    except BadInput as error:
        raise BadInput([replace(p, field="techniques.lamina.device") for p in error.problems]) from None
    spec = AttentionPoolSpec(
        device=knobs["device"],
        count=int(knobs["count"]),
        nic_bytes_per_s=float(knobs["nic_gbit"]) * 1e9 / 8,
        latency_s=float(knobs["latency_us"]) * 1e-6,
    )
    return with_pools(serving, lambda _: {"attention_pool": spec})


def offloaded(
    launches: list[Launch], batch: ServingBatch, layers: ServingLayers, knobs: dict[str, Any]
) -> list[Launch]:
    """Decode attention as a message, attention elsewhere, and a message back."""
    at = next((i for i, x in enumerate(launches) if x.name == "decode_attention"), None)
    pool = catalog.device(knobs["device"])
    here = layers.ranks * layers.cluster.device.memory_bytes_per_s
    there = int(knobs["count"]) * pool.memory_bytes_per_s
    query, cached = layers.attention_bytes
    rate = float(knobs["nic_gbit"]) * 1e9 / 8 * min(float(layers.ranks), float(knobs["count"])) / layers.ranks
    latency = float(knobs["latency_us"]) * 1e-6
    rows = batch.tokens / layers.data_ranks
    out = list(launches)
    if at is None:  # prompts alone: what they computed is sent
        last = next(i for i, x in enumerate(out) if x.name == "prompt_attention")
        sent = Launch(
            name="send_cache", tag="transfer", stream=OUT, alone_s=latency + rows * cached / rate, kernels=1.0
        )
        return [*out[: last + 1], sent, *out[last + 1 :]]
    own = out[at]
    out[at : at + 1] = [
        Launch(
            name="send_query", tag="transfer", stream=OUT, alone_s=latency + rows * (query + cached) / rate, kernels=1.0
        ),
        replace(own, stream=POOL, alone_s=batch.decode_attention_s * here / there, sm=0.0, hbm_bytes=0.0),
        Launch(name="receive_output", tag="transfer", stream=BACK, alone_s=latency + rows * query / rate, kernels=1.0),
    ]
    return out


def _layers(layers: ServingLayers, knobs: dict[str, Any]) -> Segment:
    parts = int(knobs["batches"])
    part = layers.launches(layers.batch.part(1.0 / parts))
    return side_by_side([part] * parts, layers.count, lambda launch, _: launch.stream or COMPUTE)


applies_to = served
serving = ServingPart(settings=_settings, launches=offloaded, layers=_layers)
