"""How long an instance takes from the decision until it serves."""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.specs.autoscale import AutoscaleSpec

STORAGE_BYTES_PER_S = 5e9
"""Sequential reads from one node's local NVMe drive (PCIe 4 x4, data sheets of 2023: 5 to 7 GB/s). Assumed."""
ENGINE_START_S = 45.0
"""Process, communicators, profile run and capture of graphs. Assumed: vLLM's start-up logs of 8B to 70B models say 30
to 90 s without reading weights."""


@dataclass(frozen=True, slots=True)
class StartUp:
    """Seconds, and which of them were assumed: (field, value, why)."""

    seconds: float
    assumed: tuple[tuple[str, str, str], ...] = ()


def start_up(spec: AutoscaleSpec, weights_bytes: float) -> StartUp:
    """Weights of an instance over the storage's rate, and the engine's start.

    Args:
        spec: `serving.autoscale`.
        weights_bytes: of all devices of an instance together; they share the storage.
    """
    if spec.start_up_s is not None:
        return StartUp(spec.start_up_s)
    rate = spec.storage_bytes_per_s or STORAGE_BYTES_PER_S
    engine = ENGINE_START_S if spec.engine_start_s is None else spec.engine_start_s
    assumed = []
    if spec.storage_bytes_per_s is None:
        assumed.append(("serving.autoscale.storage_bytes_per_s", f"{rate:g}", "one local NVMe drive"))
    if spec.engine_start_s is None:
        assumed.append(("serving.autoscale.engine_start_s", f"{engine:g}", "start-up logs without reading weights"))
    return StartUp(weights_bytes / rate + engine, tuple(assumed))
