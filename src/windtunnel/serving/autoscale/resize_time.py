"""How long an instance of experts takes to grow: started anew, or in place with weights from its own devices.

In place every new device takes what all ranks hold (attention, shared experts, embedding) and its share of experts from
devices that have them; devices that were there give up experts and take none. Ports send and receive at once; the
busier side decides. Memory that stays is remapped, not copied, so that the instance serves meanwhile.

Source: Singh et al. 2025, ElasticMoE, sections 4 and 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from windtunnel.serving.autoscale.start_up import ENGINE_START_S, STORAGE_BYTES_PER_S
from windtunnel.specs.autoscale import AutoscaleSpec

RECONFIGURE_S = 4.0
"""Groups of processes and warm-up of workers that are prepared beforehand. Assumed; of what a cold start does, capture
of graphs and communicators alone (vLLM's logs: 3 to 8 s)."""


@dataclass(frozen=True, slots=True)
class Size:
    """One size of an instance. Bytes of one device."""

    devices: int
    tp: int
    weights_bytes: float


@dataclass(frozen=True, slots=True)
class Growth:
    """From one size to the next."""

    seconds: float
    """From the decision until the new size serves."""
    downtime_s: float
    moved_bytes: float
    """Between devices, or from storage."""


def experts_and_rest(small: Size, large: Size) -> tuple[float, float]:
    """Bytes of experts of the whole instance, and bytes that every device holds whatever their number.

    Weights of a device are rest + experts/devices at both sizes (tp is the same).
    """
    experts = (small.weights_bytes - large.weights_bytes) / (1.0 / small.devices - 1.0 / large.devices)
    return max(experts, 0.0), small.weights_bytes - max(experts, 0.0) / small.devices


def growth(spec: AutoscaleSpec, small: Size, large: Size, p2p_bytes_per_s: float) -> Growth:
    """Seconds and bytes from a size to a larger one.

    Args:
        spec: method and rates.
        small: as it is.
        large: as it will be.
        p2p_bytes_per_s: of one device's port, one way.
    """
    if spec.method == "restart":
        return cold(spec, large.weights_bytes * large.devices)
    experts, rest = experts_and_rest(small, large)
    fresh = large.devices - small.devices
    each = rest + experts / large.devices
    moved = fresh * each
    rate = spec.p2p_bytes_per_s or p2p_bytes_per_s
    fixed = RECONFIGURE_S if spec.reconfigure_s is None else spec.reconfigure_s
    return Growth(max(each, moved / small.devices) / rate + fixed, 0.0, moved)


def cold(spec: AutoscaleSpec, weights_bytes: float) -> Growth:
    """Stop, read all weights, start: nothing is served meanwhile."""
    engine = ENGINE_START_S if spec.engine_start_s is None else spec.engine_start_s
    seconds = weights_bytes / (spec.storage_bytes_per_s or STORAGE_BYTES_PER_S) + engine
    seconds = seconds if spec.start_up_s is None else spec.start_up_s
    return Growth(seconds, seconds, weights_bytes)
