"""Pieces that lie apart are packed by one kernel, not copied one by one, and leave by the method that is soonest.

Written for strided MPI datatypes of device memory (`network.packing`: pieces, methods and their model). In a scenario
it acts where blocks of a cache go from one instance to another: instead of a copy for each block of each layer
(`serving.transfer.pieces: copied`) a kernel packs them into a buffer, which is sent and unpacked (`packed`).

What it costs: two passes over memory on each side before and after the message, where copies could have kept pace with
a slow wire.

Source: Pearson et al. 2021, sections 3 to 5.
"""

from __future__ import annotations

from windtunnel.specs.scenario import Scenario
from windtunnel.specs.serving import ServingSpec
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Limits, ServingPart, Technique
from windtunnel.techniques.serving import Knobs, served


def _packed(serving: ServingSpec, _: Knobs) -> ServingSpec:
    return serving.model_copy(update={"transfer": serving.transfer.model_copy(update={"pieces": "packed"})})


def _applies(scenario: Scenario) -> str | None:
    reason = served(scenario)
    if reason or scenario.serving is None:
        return reason
    apart = any(pool.role == "decode" for pool in scenario.serving.pools)
    return None if apart else "no cache goes from one instance to another"


TECHNIQUE = Technique(
    id="tempi",
    edits=(("run", "transfer"),),
    applies_to=_applies,
    serving=ServingPart(settings=_packed),
    saves="copies of small pieces",
    resource="host",
    limits=Limits(
        scenario={
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
            "serving": {
                "engine": "vllm",
                "pools": [
                    {"role": "prefill", "replicas": 2, "plan": {"tp": 1}},
                    {"role": "decode", "replicas": 2, "plan": {"tp": 1}},
                ],
                "traffic": {"rate_per_s": 1, "num_requests": 30, "input_tokens": 8000, "output_tokens": 20},
                "transfer": {"pieces": "copied"},
            },
        },
        measure="e2e_s.mean",
        free={"serving": {"traffic": {"input_tokens": 1}}},
        vanishes=0.005,
        # a wire so slow that copies keep pace with it, and passes over memory come on top
        costly_scenario={
            "cluster": {
                "scale_up_domain": 1,
                "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": "0.5 GB/s", "family": "roce"},
            }
        },
    ),
)

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
