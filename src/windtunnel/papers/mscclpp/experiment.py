"""Collectives of puts and signals against the vendor's library, alone and in decoding."""

from __future__ import annotations

from typing import Any

from windtunnel import catalog
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.papers import ClaimResult
from windtunnel.papers.claims import Measure, Values, load, results, served
from windtunnel.specs.cluster import ClusterRef

TITLE = "MSCCL++ (Shah et al. 2025)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.mscclpp")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def speed_ups() -> dict[tuple[str, int, str, int], float]:
    """(device, nodes, operation, bytes) → vendor's time over the library's."""
    out = {}
    for device, nodes in fixed("machines"):
        where = catalog.resolve_cluster(ClusterRef(device=device, nodes=nodes, devices_per_node=8))
        net, place = NetworkModel(where), placement(where.num_devices, 1, where.scale_up_domain)
        for operation in fixed("operations"):
            for size in fixed("sizes"):
                plain, put = (
                    float(net.collective(operation, size, place, software=software).alone_s)
                    for software in (None, "mscclpp")
                )
                out[device, nodes, operation, size] = plain / put
    return out


def collectives(_: Values) -> float:
    """The largest of them."""
    return max(speed_ups().values())


def decoding(values: Values, batch: int) -> Values:
    """A batch that is answered at once."""
    where = fixed("serving")
    return {
        "model": fixed("model"),
        "cluster": {"device": where["device"], "nodes": 1, "devices_per_node": where["tp"]},
        "serving": {
            "engine": "vllm", "engine_version": values["engine_version"],
            "pools": [{"plan": {"tp": where["tp"]}, "limits": {"max_num_seqs": 256}}],
            "traffic": {
                "offline": True, "num_requests": batch, "input_tokens": values["prompt"],
                "output_tokens": fixed("answer"),
            },
        },
    }  # fmt: skip


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


def run() -> list[ClaimResult]:
    """Speed-ups of collectives, and what is left of them in decoding."""
    return results(setting(), "mscclpp", measures())
