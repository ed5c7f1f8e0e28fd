"""Memory of the host: every device copies its part over its own link."""

from __future__ import annotations

from windtunnel.serving.kv_tiers.kinds import TIERS, TierKind

COPY_S = 1e-5
"""Launch of a copy (assumed; of the order that copies of a few bytes take on any recent device)."""

TIERS.add(
    "host",
    TierKind(
        "host memory",
        "the device's link to the host (catalogue), all devices of the instance at once",
        lambda cluster, devices: cluster.device.pcie_bytes_per_s * devices,
        lambda _: COPY_S,
    ),
)
