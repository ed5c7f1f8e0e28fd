"""Several models on shared devices: every tenant has weights of its own."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from windtunnel.specs.base import BytesPerS, Seconds, Spec


class MeshSpec(Spec):
    """Serverless deployments, one a tenant, all of the scenario's model; pools are the devices that they may use."""

    sharing: Literal["shared", "exclusive"] = "shared"
    """`shared`: deployments take turns on a device, iteration by iteration, as long as objectives allow. `exclusive`: a
    device has one deployment at a time."""
    keep_alive_s: Seconds = 1.0
    """Idle deployments stay this long, or until their room is needed."""
    load_bytes_per_s: BytesPerS | None = None
    """Rate at which weights are copied from host memory to a device; absent: that of its PCIe link. Weights of a
    deployment on a CPU are there already."""
    start_s: Seconds = 0.5
    """Seconds from loaded weights to the first iteration. Assumed."""
    margin: float = Field(default=1.0, gt=0, le=1)
    """Share of the latency objectives that placements count on."""
