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
from windtunnel.techniques.base import Knob, Technique


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
)
