"""What `lsh-moe.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from windtunnel.program.segment import COMPUTE, Launch, Segment
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.techniques.models import without_experts

PASSES = 5.0
"""Passes over routed rows: read to hash, read and summed by cluster, read and written as residuals, centres written."""


def _fewer(x: Launch, keep: float) -> Launch:
    """A launch on fewer rows: an exchange keeps its latency, a product its weights' traffic."""
    fixed_s = min(x.latency_s, x.alone_s)
    smaller = replace(
        x,
        alone_s=fixed_s + (x.alone_s - fixed_s) * keep,
        up_bytes=x.up_bytes * keep,
        out_bytes=x.out_bytes * keep,
        hbm_bytes=x.hbm_bytes * keep,
        flop=x.flop * keep,
    )
    if x.kind == "grouped gemm" and len(x.shape) == 4:
        m, n, k, groups = x.shape
        return replace(smaller, shape=(m, n, k * keep, groups) if x.phase == "W" else (m * keep, n, k, groups))
    return smaller


def segment(segment: Segment, cluster: ClusterSpec, knobs: dict[str, Any]) -> Segment:
    keep = knobs["kept"]
    out: list[Launch] = []
    moved: dict[int, int] = {}
    for i, x in enumerate(segment.launches):
        after = [moved[j] for j in x.after]
        exchange = x.operation == "all_to_all" and x.tag == "ep"
        if exchange:
            # hashing next to the exchange's own rows: what it would carry, passed over and rotated
            rows_bytes = x.hbm_bytes / 2.0
            flop = rows_bytes / 2.0 * 2.0 * knobs["hashes"] * knobs["rotations"]
            rate = max(cluster.device.peak_flop_per_s.values()) * 0.3
            seconds = PASSES * rows_bytes / (0.8 * cluster.device.memory_bytes_per_s) + flop / rate
            hashing = Launch(
                name=f"lsh_{x.name}",
                tag="memory_bound",
                stream=COMPUTE,
                alone_s=seconds,
                after=after,
                sm=1.0,
                hbm_bytes=PASSES * rows_bytes,
                flop=flop,
                kernels=4,
                phase=x.phase,
                kind="memory_bound",
            )
            out.append(hashing)
            after = [len(out) - 1]
        small = exchange or x.kind == "grouped gemm"
        out.append((_fewer(x, keep) if small else x).following(after))
        moved[i] = len(out) - 1
    return replace(segment, launches=out)


applies_to = without_experts
