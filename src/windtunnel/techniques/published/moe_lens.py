"""What `moe-lens.yaml` changes."""

from __future__ import annotations

from typing import Any

from windtunnel.program.segment import COMM, Launch, Segment
from windtunnel.specs.attention_pool import AttentionPoolSpec
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques.base import ServingPart
from windtunnel.techniques.published.lamina import offloaded
from windtunnel.techniques.published.smallthinker import applies
from windtunnel.techniques.serving import ServingBatch, ServingLayers, with_pools

QUEUE = f"{COMM}:experts"
AHEAD = 2
"""Layers whose experts have room on the GPU: the one that computes and the one that is copied."""


def _pool(knobs: dict[str, Any]) -> dict[str, Any]:
    """The host as `lamina` knows devices for attention."""
    return {
        "device": "cpu-generic",
        "count": knobs["sockets"],
        "nic_gbit": 8.0 * knobs["pcie_gb_per_s"],
        "latency_us": knobs["latency_us"],
    }


def _settings(serving: ServingSpec, knobs: dict[str, Any]) -> ServingSpec:
    spec = AttentionPoolSpec(
        device="cpu-generic",
        count=int(knobs["sockets"]),
        nic_bytes_per_s=float(knobs["pcie_gb_per_s"]) * 1e9,
        latency_s=float(knobs["latency_us"]) * 1e-6,
        memory_fraction=float(knobs["cache_share"]),
    )
    return with_pools(serving, lambda _: {"attention_pool": spec})


def _attention_there(
    launches: list[Launch], batch: ServingBatch, layers: ServingLayers, knobs: dict[str, Any]
) -> list[Launch]:
    return offloaded(launches, batch, layers, _pool(knobs))


def _layers(layers: ServingLayers, knobs: dict[str, Any]) -> Segment | None:
    """Two halves of the batch in turn: one is on the host while the other computes; experts come once for both."""
    halves = [layers.launches(layers.batch.part(0.5)) for _ in range(2)]
    copies = [x for x in layers.launches(layers.batch) if x.tag == "storage"]
    out = Segment("experts from host memory", "F", [])
    last: list[list[int]] = [[], []]
    ends: list[int] = []
    fetched: list[int] = []
    for layer in range(layers.count):
        for copy in copies:
            room = [ends[layer - AHEAD]] if layer >= AHEAD else []
            read = copy.following([*fetched[-1:], *room])
            read.stream = QUEUE
            fetched.append(out.append(read))
        for half, launches in enumerate(halves):
            for launch in (x for x in launches if x.tag != "storage"):
                waits = fetched[-1:] if launch.name.startswith("expert") else []
                last[half] = [out.append(launch.following([*last[half], *waits]))]
        ends.append(last[1][0])
    return out


applies_to = applies
serving = ServingPart(settings=_settings, launches=_attention_there, layers=_layers)
