"""Small sums across nodes: NCCL's against recursive doubling of puts, alone and in decoding a large model."""

from __future__ import annotations

from functools import partial
from statistics import geometric_mean
from typing import Any

from windtunnel import catalog
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterRef
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def cluster(machine: Values, gpus: int) -> Values:
    """Some GPUs of a machine."""
    return {
        "device": machine["device"],
        "nodes": max(gpus // machine["per_node"], 1),
        "devices_per_node": machine["per_node"],
        "scale_out": {
            "nics_per_node": machine["per_node"],
            "nic_bytes_per_s": machine["port_gbit"] * 1e9 / 8,
            "family": machine["family"],
        },
    }


def latencies(values: Values) -> dict[str, list[tuple[float, float, float]]]:
    """Machine → (bytes, NCCL's seconds, NVRAR's) at every size."""
    out = {}
    for name, machine in fixed("machines").items():
        gpus = int(machine["gpus"] * values["gpu_factor"])
        where = catalog.resolve_cluster(ClusterRef.model_validate(cluster(machine, gpus)))
        net, place = NetworkModel(where), placement(gpus, 1, where.scale_up_domain)
        plain, put = (
            [float(net.collective("all_reduce", size, place, software=s).alone_s) for size in fixed("sizes")]
            for s in ("nccl", "nvrar")
        )
        out[name] = list(zip(map(float, fixed("sizes")), plain, put, strict=True))
    return out


def ratios(values: Values) -> list[float]:
    """NCCL's time over NVRAR's at every size on both machines."""
    return [plain / put for points in latencies(values).values() for _, plain, put in points]


def latency(values: Values, of: Any = geometric_mean) -> float:
    """One figure of the ratios."""
    return float(of(ratios(values)))


def batch_s(values: Values, machine: Values, techniques: list[str]) -> float:
    """Seconds from the first prompt to the last token of a batch."""
    scenario = {
        "model": fixed("model"),
        "cluster": cluster(machine, machine["gpus"]),
        "techniques": techniques,
        "serving": {
            "engine": fixed("engine"),
            "pools": [{"plan": {"tp": machine["gpus"]}}],
            "traffic": {
                "offline": True,
                "num_requests": values["batch"],
                "input_tokens": values["prompt"],
                "output_tokens": values["answer"],
            },
        },
    }
    return float(served(scenario).duration_s)


def batch(values: Values) -> float:
    """Batch latency without over with, larger of both machines."""
    machines = fixed("machines").values()
    return max(batch_s(values, machine, []) / batch_s(values, machine, ["nvrar"]) for machine in machines)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "latency": latency,
        "latency/smallest": partial(latency, of=min),
        "latency/largest": partial(latency, of=max),
        "batch": batch,
    }


def plot(_: list[ClaimResult]) -> Any:
    """Latency over size on both machines, NCCL's and NVRAR's."""
    panels = {}
    for name, points in latencies(central(EXPERIMENT.setting)).items():
        panels[f"{name}, {fixed('machines')[name]['gpus']} GPUs"] = {
            "NCCL": [(size / 1024, float("nan"), plain * 1e6) for size, plain, _ in points],
            "NVRAR": [(size / 1024, float("nan"), put * 1e6) for size, _, put in points],
        }
    return beside(panels, "all-reduce, KiB", "µs", log_x=True)
