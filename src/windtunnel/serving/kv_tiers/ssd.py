"""A drive of the node."""

from __future__ import annotations

from windtunnel.serving.kv_tiers.kinds import TIERS, TierKind

READ_BYTES_PER_S = 6.8e9
"""Sequential reads of one drive on four lanes of PCIe 4.0 (data sheets of data-centre drives: 6.5 to 7 GB/s)."""
READ_S = 1e-4
"""A random read of such a drive (data sheets: 80 to 100 us)."""

TIERS.add(
    "ssd",
    TierKind(
        "solid-state drive",
        "one drive on PCIe 4.0 x4 an instance (data sheets); never faster than the host's links",
        lambda cluster, devices: min(READ_BYTES_PER_S, cluster.device.pcie_bytes_per_s * devices),
        lambda _: READ_S,
    ),
)
