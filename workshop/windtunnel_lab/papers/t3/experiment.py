"""Sub-layers of large models, with reductions after the product and with reductions behind it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from statistics import geometric_mean

import numpy as np

from windtunnel.cost.coefficients import Coefficients
from windtunnel.cost.gemm import Products, gemm_time_s
from windtunnel.cost.tiled import operand_reads
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.pricing.segments import simulate_segments
from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.specs.cluster import ClusterSpec, ScaleOut
from windtunnel.specs.device import DeviceSpec, LinkSpec
from windtunnel.techniques import applied
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
WIDTHS = (1, 4, 4, 3)
"""Inner dimension of the four products in hidden sizes: output, second and first of the MLP, queries to values."""
BYTES = 2.0


def cluster(values: Values, ranks: int) -> ClusterSpec:
    """A ring of the paper's GPU."""
    device = DeviceSpec.model_validate(
        EXPERIMENT.setting["device"] | {"peak_flop_per_s": {"fp16": values["peak_tflops"] * 1e12}}
    )
    link = LinkSpec(
        id="ring", family="generic", bytes_per_s=values["link_gb_per_s"] * 1e9, latency_s=fixed("hop_us") * 1e-6
    )
    out = ScaleOut(nics_per_node=ranks, nic_bytes_per_s=1e9)
    return ClusterSpec(
        name="t3", device=device, nodes=1, devices_per_node=ranks, scale_up=link, scale_out=out, scale_up_domain=ranks
    )


def sublayer(where: ClusterSpec, tokens: int, hidden: int, inner: float) -> Segment:
    """A product of (tokens, inner) and (inner, hidden), and the all-reduce of its output."""
    m, n, k, size = float(tokens), float(hidden), inner, tokens * hidden * BYTES
    seconds = gemm_time_s(
        where.device,
        Coefficients(),
        Products(
            m=np.array(m),
            n=np.array(n),
            k=np.array(k),
            peak_flop_per_s=np.array(where.device.peak("fp16")),
            fraction=np.array(Coefficients().gemm_fraction["bf16"]),
            operand_bytes=np.array(BYTES),
            output_bytes=np.array(BYTES),
            extra_bytes=np.array(0.0),
            groups=np.array(1.0),
        ),
    )
    ring = NetworkModel(where).collective(
        "all_reduce",
        size,
        placement(where.num_devices, 1, where.num_devices),
        algorithm=fixed("algorithm"),
        protocol="simple",
    )
    read = float(operand_reads(where.device, *map(np.array, (m, n, k, BYTES, BYTES))))
    gemm = Launch(
        name="product",
        tag="gemm",
        stream=COMPUTE,
        alone_s=float(seconds),
        after=[],
        sm=1.0,
        hbm_bytes=read + BYTES * m * n,
        flop=2.0 * m * n * k,
        splittable=True,
        kind="gemm",
        shape=(m, n, k, 1.0),
    )
    reduce = Launch(
        name="tp_reduce_product",
        tag="tp",
        stream=COMM,
        alone_s=float(ring.alone_s),
        after=[0],
        sm=float(ring.channels) / where.device.num_sms,
        hbm_bytes=float(ring.hbm_bytes),
        up_bytes=float(ring.work_scale_up_bytes),
        ranks=float(where.num_devices),
        operation="all_reduce",
        kind="collective",
        latency_s=float(ring.latency_s),
        beside="product",
    )
    return Segment("sub-layer", "F", [gemm, reduce])


def ratios(values: Values, models: tuple[str, ...]) -> list[tuple[float, float]]:
    """(speed-up, bytes without over with) of every sub-layer."""
    technique, out = applied(({"t3": {"trigger_us": fixed("hop_us")}},))[0], []
    for name in models:
        model = fixed(name)
        for tp in model["tp"]:
            where = cluster(values, tp)
            for width in WIDTHS:
                plain = sublayer(where, model["tokens"], model["hidden"], width * model["hidden"] / tp)
                both = [plain, technique.on_segment(replace(plain), where)]
                times = simulate_segments(both, where, Coefficients(), [0.0, 0.0], [0.0, 0.0])
                moved = [sum(launch.hbm_bytes for launch in one.launches) for one in both]
                out.append((times[0].device_s / times[1].device_s, moved[0] / moved[1]))
    return out


def speed_up(values: Values, models: tuple[str, ...] = ("t_nlg",), largest: bool = False) -> float:
    """Per cent that a sub-layer is faster."""
    found = [speed for speed, _ in ratios(values, models)]
    return 100.0 * ((max(found) if largest else geometric_mean(found)) - 1.0)


def traffic(values: Values, largest: bool = False) -> float:
    """Per cent of the bytes that are no longer moved."""
    found = [1.0 / moved for _, moved in ratios(values, ("t_nlg",))]
    return 100.0 * (1.0 - (min(found) if largest else geometric_mean(found)))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "speed-up": speed_up,
        "speed-up/largest": partial(speed_up, largest=True),
        "traffic": traffic,
        "traffic/largest": partial(traffic, largest=True),
        "large": partial(speed_up, models=("palm", "mt_nlg")),
    }
