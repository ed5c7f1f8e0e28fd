"""A store that all instances share, over the network (Mooncake's store, LMCache's server)."""

from __future__ import annotations

from windtunnel.serving.kv_tiers.kinds import TIERS, TierKind

LOOK_UP_S = 1e-4
"""Asking the store where blocks are, and a read's set-up (assumed)."""

TIERS.add(
    "remote",
    TierKind(
        "shared store",
        "each device's share of the node's network ports (cluster); look-up assumed",
        lambda cluster, devices: cluster.nic_bytes_per_s_per_device * devices,
        lambda cluster: LOOK_UP_S + cluster.scale_out.latency_s,
        shared=True,
    ),
)
