"""What host reduction is worth on PCIe servers, and what such a cluster costs and draws next to DGX-A100 servers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from windtunnel import catalog
from windtunnel.network.groups import Mesh
from windtunnel.network.model import NetworkModel
from windtunnel.specs.cluster import ClusterRef
from windtunnel.training.predict import simulate_training
from windtunnel_lab.models.network.switches import fat_tree_switches
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__, "fire-flyer")
fixed = EXPERIMENT.fixed
PER_NODE = 8


def pcie_cluster(values: Values, nodes: int) -> Values:
    """Servers without switches between devices: what one sends to another turns round in the host."""
    return {
        "device": "a100-pcie-40gb",
        "nodes": nodes,
        "devices_per_node": PER_NODE,
        "host_memory_bytes_per_s": values["host_memory_gb_per_s"] * 1e9,
        "devices_per_host_link": values["per_host_link"],
        "scale_up": {
            "id": "pcie-p2p",
            "family": "pcie4",
            "topology": "host",
            "bytes_per_s": values["p2p_gib_per_s"] * 2**30,
            "latency_s": 2.5e-6,
        },
        "scale_out": {
            "nics_per_node": 1,
            "nic_bytes_per_s": fixed("nic_gb_per_s") * 1e9,
            "family": "infiniband",
        },
    }


def dgx_cluster(nodes: int) -> Values:
    """DGX A100 of 40 GB devices."""
    return {
        "device": "a100-sxm-40gb",
        "nodes": nodes,
        "devices_per_node": PER_NODE,
        "scale_out": {
            "nics_per_node": fixed("dgx_ports"),
            "nic_bytes_per_s": fixed("nic_gb_per_s") * 1e9,
            "family": "infiniband",
        },
    }


def rates(values: Values, algorithm: str | None) -> list[float]:
    """GB/s of an all-reduce over all devices, by number of devices: tensor over time."""
    nbytes, out = fixed("tensor_mib") * 2**20, []
    for gpus in fixed("gpus"):
        cluster = catalog.resolve_cluster(ClusterRef.model_validate(pcie_cluster(values, gpus // PER_NODE)))
        mesh = Mesh({"dp": gpus}, ("dp",), cluster)
        found = NetworkModel(cluster).collective("all_reduce", nbytes, mesh.placement("dp"), algorithm=algorithm)
        out.append(nbytes / float(found.alone_s) / 1e9)
    return out


def switches() -> tuple[float, float]:
    """Switches of the two builds."""
    zones, radix = fixed("zones"), fixed("radix")
    here = zones["count"] * fat_tree_switches(zones["ports"], radix) + zones["between"]
    return float(here), float(fat_tree_switches(fixed("nodes") * fixed("dgx_ports"), radix))


def cost() -> float:
    """Servers and network here over those there."""
    here, there = switches()
    price, switch, nodes = fixed("server_k_usd"), fixed("switch_k_usd"), fixed("nodes")
    return float((nodes * price["pcie"] + here * switch) / (nodes * price["dgx"] + there * switch))


@lru_cache(maxsize=64)
def _step(cluster: str, host_memory: float, p2p: float, per_link: int) -> tuple[float, float]:
    """Seconds of the step on 64 devices, and mean watts of one of them."""
    step, nodes = fixed("step"), 8
    values = {"host_memory_gb_per_s": host_memory, "p2p_gib_per_s": p2p, "per_host_link": per_link}
    found = simulate_training(
        {
            "model": fixed("model"),
            "cluster": pcie_cluster(values, nodes) if cluster == "pcie" else dgx_cluster(nodes),
            "training": {
                "seq_len": step["seq_len"],
                "global_batch": step["sequences_per_device"] * nodes * PER_NODE,
                "precision": "bf16",
            },
            "plan": {"tp": step["tp"], "pp": step["pp"], "mbs": 1, "zero": 0, "recompute": {"policy": "full"}},
            "techniques": ["fire-flyer"] if cluster == "pcie" else [],
        },
        sensitivities=False,
    )
    return found.step_time_s, found.mean_power_w


def steps(values: Values) -> tuple[tuple[float, float], tuple[float, float]]:
    """(seconds, watts) of the step here and there."""
    given = (values["host_memory_gb_per_s"], values["p2p_gib_per_s"], values["per_host_link"])
    return _step("pcie", *given), _step("dgx", *given)


def performance(values: Values) -> float:
    """Time there over time here."""
    here, there = steps(values)
    return float(there[0] / here[0])


def energy(values: Values) -> float:
    """Joules of a node saved a step."""
    here, there = steps(values)
    own = here[0] * (PER_NODE * here[1] + float(values["rest_pcie_w"]))
    return 1.0 - own / (there[0] * (PER_NODE * there[1] + float(values["rest_dgx_w"])))


def power(values: Values) -> float:
    """Watts of a node saved."""
    here, there = steps(values)
    own = PER_NODE * here[1] + float(values["rest_pcie_w"])
    return 1.0 - own / (PER_NODE * there[1] + float(values["rest_dgx_w"]))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "cost": lambda _: cost(),
        "energy": energy,
        "power": power,
        "performance": performance,
        "switches": lambda _: switches()[0],
        "switches/dgx": lambda _: switches()[1],
        "hfreduce/least": lambda v: min(rates(v, "host_reduce")),
        "hfreduce/most": lambda v: max(rates(v, "host_reduce")),
        "nccl/least": lambda v: min(rates(v, None)),
        "nccl/most": lambda v: max(rates(v, None)),
        "faster": lambda v: min(a / b for a, b in zip(rates(v, "host_reduce"), rates(v, None), strict=True)),
    }


def plot(_: list[ClaimResult]) -> Any:
    """GB/s of both all-reduces over the number of devices."""
    values = central(EXPERIMENT.setting)
    gpus = fixed("gpus")
    lines = {"host": rates(values, "host_reduce"), "NCCL": rates(values, None)}
    panels = {
        "186 MiB": {name: curve(gpus, dict(zip(gpus, line, strict=True)).__getitem__) for name, line in lines.items()}
    }
    return beside(panels, "devices", "GB/s", log_x=True)
