"""Gradients are summed by the host processors, on servers whose devices hang on PCIe alone.

Each device copies its gradients to the host, the processors add the copies of a node, hosts exchange sums over a double
tree of RDMA, and the result is copied back (`network/collectives/host_reduce.py`). A ring of the vendor's library
sends (2n − 1)/n times the tensor through every PCIe link and turns round inside the host; here each link carries it
once each way, and no thread block of a device works on it beside backward.

What it costs: the host's memory carries some 32 bytes for each byte of the tensor on a node of eight, and where a
scale-up network is at hand its rings are far faster.

Source: An et al. 2024, sections on HFReduce. Prices and watts of the two builds are inputs of the paper's experiment.
"""

from __future__ import annotations

from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Technique


def applies(scenario: Scenario) -> str | None:
    """Whole gradients are summed."""
    if scenario.training is None:
        return "there is no `training` section"
    if scenario.plan.zero:
        return "gradients are reduced in shards (`plan.zero`), which stays with the vendor's library"
    return None


TECHNIQUE = Technique(
    id="fire-flyer",
    knobs={"algorithm": Knob("host_reduce", choices=("host_reduce",), doc="where gradients are summed", given=True)},
    edits=(("plan", "collective.dp.all_reduce"),),
    applies_to=applies,
    selects={"collective.dp.all_reduce": "$algorithm"},
    saves="network",
    resource="network",
    limits=Limits(
        scenario={
            "model": "meta-llama/Llama-3.2-1B",
            "cluster": {
                "device": "a100-pcie-40gb",
                "nodes": 16,
                "devices_per_node": 8,
                "scale_up": {
                    "id": "pcie-p2p",
                    "family": "pcie4",
                    "topology": "host",
                    "bytes_per_s": "9 GiB/s",
                    "latency_s": "2.5 us",
                },
                "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": "25 GB/s", "family": "infiniband"},
            },
            "training": {"seq_len": 2048, "global_batch": 128},
            "plan": {"zero": 0, "mbs": 1},
        },
        free={"cluster": {"nodes": 1, "devices_per_node": 1}, "training": {"global_batch": 1}},
        costly_scenario={
            "cluster": {
                "device": "a100-sxm-80gb",
                "scale_up": {
                    "id": "nvlink3",
                    "family": "nvlink3",
                    "topology": "switch",
                    "bytes_per_s": "300 GB/s",
                    "latency_s": "2 us",
                },
                "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": "25 GB/s", "family": "infiniband"},
            },
        },
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
