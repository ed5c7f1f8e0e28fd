"""What `t3.yaml` changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.cost.tiled import operand_reads
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.parallel.precision import OPERAND_BYTES
from windtunnel.program.segment import Launch, Segment
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.scenario import Scenario

_OUTPUT_BYTES = 2.0
_REDUCES = ("all_reduce", "reduce_scatter")


def _drain_of(launches: list[Launch], at: int) -> int | None:
    """Index of the reduction that a product feeds, if it may start tile by tile."""
    gemm = launches[at]
    if not gemm.splittable or len(gemm.shape) < 2:
        return None
    if gemm.phase in "FR":
        after, name = launches[at + 1 : at + 2], f"tp_reduce_{gemm.name}"
    elif gemm.phase == "D":
        after, name = launches[at + 1 : at + 4], f"tp_gather_{gemm.name}"
    else:
        return None
    for i, one in enumerate(after, at + 1):
        if one.name == name and one.tag == "tp" and one.operation in _REDUCES:
            return i
    return None


def _kept(gemm: Launch, device: DeviceSpec) -> float:
    """Bytes of operands that are not read again, as outputs pass the last-level cache and leave it to them."""
    if not device.rereads:
        return 0.0
    m, n, k, groups = (np.array(x) for x in gemm.shape[:4])
    size = np.array(OPERAND_BYTES.get(gemm.number_format, _OUTPUT_BYTES))
    both = [
        operand_reads(device, m, n, k, size, np.array(_OUTPUT_BYTES), output_cached=cached) for cached in (True, False)
    ]
    return float(groups * (both[0] - both[1]))


def _pieces(
    gemm: Launch, comm: Launch, network: NetworkModel, knobs: dict[str, Any]
) -> tuple[list[Launch], list[Launch], Launch | None]:
    """(chunks of the product, transfers, the all-gather that is left)."""
    n, size = int(comm.ranks), gemm.shape[0] * gemm.shape[1] * _OUTPUT_BYTES
    gemm = replace(gemm, hbm_bytes=gemm.hbm_bytes - _kept(gemm, network.cluster.device))
    place = placement(n, 1, network.cluster.scale_up_domain)
    ring = network.collective("reduce_scatter", size, place, algorithm="ring", protocol="simple")
    up = NetworkCoefficients.for_cluster(network.cluster).up
    chunk = size / n
    block = replace(
        gemm, alone_s=gemm.alone_s / n, hbm_bytes=gemm.hbm_bytes / n, flop=gemm.flop / n, kernels=gemm.kernels / n
    )
    hop = knobs["trigger_us"] * 1e-6 + up.hop_s[0]
    step = replace(
        comm,
        operation="reduce_scatter",
        alone_s=float(ring.alone_s - ring.latency_s) / (n - 1) + hop,
        sm=0.0,
        hbm_bytes=(2.0 if knobs["near_memory"] else 3.0) * chunk,
        up_bytes=float(ring.work_scale_up_bytes) / (n - 1),
        out_bytes=float(ring.work_scale_out_bytes) / (n - 1),
        kernels=0.0,
        latency_s=hop,
        algorithm="ring/tracked",
    )
    first = replace(step, hbm_bytes=step.hbm_bytes - chunk)  # stored at the neighbour by the product itself
    blocks = [replace(block, hbm_bytes=max(block.hbm_bytes - chunk, 0.0)), *[block] * (n - 1)]
    rest = None
    if comm.operation == "all_reduce":
        gather = network.collective("all_gather", size, place)
        rest = replace(
            comm,
            operation="all_gather",
            alone_s=float(gather.alone_s),
            hbm_bytes=float(gather.hbm_bytes),
            up_bytes=float(gather.work_scale_up_bytes),
            out_bytes=float(gather.work_scale_out_bytes),
            latency_s=float(gather.latency_s),
            algorithm=str(gather.algorithm),
        )
    return blocks, [first, *[step] * (n - 2)], rest


def segment(segment: Segment, cluster: ClusterSpec, knobs: dict[str, Any]) -> Segment:
    old, network = segment.launches, NetworkModel(cluster)
    out, ends = Segment(segment.name, segment.direction, []), dict[int, list[int]]()
    tracked: dict[int, tuple[list[int], Launch | None]] = {}

    def put(launch: Launch, after: list[int]) -> int:
        return out.append(launch.following(sorted(set(after))))

    for at, launch in enumerate(old):
        ready = sorted({j for i in launch.after for j in ends[i]})
        if at in tracked:
            sent, rest = tracked[at]
            done = [*ready, *sent]
            ends[at] = [put(rest, done)] if rest else done
            continue
        drain = _drain_of(old, at)
        if drain is None or old[drain].ranks < 2:
            ends[at] = [put(launch, ready)]
            continue
        blocks, transfers, rest = _pieces(launch, old[drain], network, knobs)
        sent = []
        for i, block in enumerate(blocks):
            # the first chunk leaves while it is computed, every other one when it is whole and its sum has arrived
            if i == 0:
                sent = [put(transfers[0], ready)]
            last = put(block, ready)
            if 0 < i < len(transfers):
                sent = [put(transfers[i], [last, *sent])]
        ends[at], tracked[drain] = [last], (sent, rest)
    return out


def applies_to(scenario: Scenario) -> str | None:
    return None if scenario.plan.tp > 1 else "there is no tensor parallelism to overlap"
