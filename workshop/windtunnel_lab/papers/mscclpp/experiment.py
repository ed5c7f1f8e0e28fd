"""Collectives of puts and signals against the vendor's library, alone and in decoding."""

from __future__ import annotations

from typing import Any

from windtunnel import catalog
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterRef
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def latencies() -> dict[tuple[str, int, str, int], tuple[float, float]]:
    """(device, nodes, operation, bytes) → seconds of the vendor's library and with the other laid over it."""
    out = {}
    for device, nodes in fixed("machines"):
        where = catalog.resolve_cluster(ClusterRef(device=device, nodes=nodes, devices_per_node=8))
        net, place = NetworkModel(where), placement(where.num_devices, 1, where.scale_up_domain)
        for operation in fixed("operations"):
            for size in fixed("sizes"):
                out[device, nodes, operation, size] = (
                    float(net.collective(operation, size, place).alone_s),
                    float(net.collective(operation, size, place, software="mscclpp").alone_s),
                )
    return out


def collectives(_: Values) -> float:
    """The largest speed-up."""
    return max(plain / put for plain, put in latencies().values())


def decoding(values: Values, batch: int) -> Values:
    """A batch that is answered at once."""
    where = fixed("serving")
    return {
        "model": fixed("model"),
        "cluster": {"device": where["device"], "nodes": 1, "devices_per_node": where["tp"]},
        "serving": {
            "engine": "vllm",
            "engine_version": values["engine_version"],
            "pools": [{"plan": {"tp": where["tp"]}, "limits": {"max_num_seqs": 256}}],
            "traffic": {
                "offline": True,
                "num_requests": batch,
                "input_tokens": values["prompt"],
                "output_tokens": fixed("answer"),
            },
        },
    }


def inference(values: Values) -> float:
    """Per cent by which decoding is faster, largest over batches."""
    gains = []
    for batch in fixed("batches"):
        plain = decoding(values, batch)
        gains.append(served(plain).tpot_s.mean / served(plain | {"techniques": ["mscclpp"]}).tpot_s.mean - 1.0)
    return 100.0 * max(gains)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"collectives": collectives, "inference": inference}


def plot(_: list[ClaimResult]) -> Any:
    """All-reduce speed-up over size, one panel a number of nodes, one line a device."""
    panels: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
    for (device, nodes, operation, size), (plain, put) in latencies().items():
        if operation == "all_reduce":
            lines = panels.setdefault(f"{nodes} x 8", {})
            lines.setdefault(device, []).append((size / 1024, float("nan"), plain / put))
    return beside(panels, "all-reduce, KiB", "speed-up", log_x=True)
