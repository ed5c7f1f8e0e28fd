"""Nano-batches: parts of one batch run side by side, each on the resource that its operator waits for.

The batch is cut into parts of equal tokens. Operator by operator, products of one part run beside decode attention of
another and collectives of a third: three queues, one for kernels that compute, one for kernels that wait for memory,
one for collectives. They share SMs and memory as all kernels do.

What it costs: weights are read once a part, products are smaller, and every part has launches, gaps and collectives of
its own. Below `threshold` tokens a batch stays whole.

Source: Zhu et al. 2024, sections 3 and 4: nano-operations, two to four of them, intra-device parallelism. The paper's
search for unequal parts and for fixed shares of SMs is left out: parts are equal, shares are what the engine's rates
give.
"""

from __future__ import annotations

from typing import Any

from windtunnel.program.segment import COMM, COMPUTE, Launch, Segment
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob, Limits, Paper, Technique
from windtunnel.techniques.limits import HUGE_BYTES_PER_S
from windtunnel.techniques.serving import ServingLayers, ServingPart, served, side_by_side

MEMORY = "memory"
"""Queue of kernels that wait for memory."""


def _queue(launch: Launch, _part: int) -> str:
    if launch.stream == COMM:
        return COMM
    return MEMORY if launch.name == "decode_attention" else COMPUTE


def _layers(layers: ServingLayers, knobs: dict[str, Any]) -> Segment | None:
    if layers.batch.tokens < knobs["threshold"]:
        return None
    parts = int(knobs["nano_batches"])
    part = layers.launches(layers.batch.part(1.0 / parts))
    return side_by_side([part] * parts, layers.count, _queue)


TECHNIQUE = Technique(
    id="nanoflow",
    family="overlap-serving",
    summary="products, decode attention and collectives of parts of one batch side by side",
    paper=Paper(
        "NanoFlow: Towards Optimal Large Language Model Serving Throughput", 2024, "https://arxiv.org/abs/2408.12757",
        "Zhu, Kan and others", "OSDI 2025",
    ),
    levels=("pair",),
    status="partial",
    missing="parts of unequal size and the search for them and for shares of SMs; scheduling of the next batch ahead",
    knobs={
        "nano_batches": Knob(2, 2, 4, "parts of a batch"),
        "threshold": Knob(256, 1, 1 << 20, "tokens from which on a batch is cut"),
    },
    edits=(("pair", "iteration"),),
    applies_to=served,
    serving=ServingPart(layers=_layers, breaks=lambda knobs: (int(knobs["threshold"]),)),
    experiment="nanoflow",
    saves="memory and scale-up traffic behind products",
    resource="memory bandwidth",
    limits=Limits(
        scenario={
            "model": "meta-llama/Llama-2-70b-hf",
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
            "serving": {
                "engine": "vllm",
                "pools": [{"plan": {"tp": 8}, "limits": {"max_num_seqs": 1024, "max_num_batched_tokens": 2048}}],
                "traffic": {"offline": True, "num_requests": 1500, "input_tokens": 512, "output_tokens": 512},
            },
        },
        measure="output_tokens_per_s",
        larger=True,
        free={"cluster": {"memory_bytes_per_s": "1000 TB/s", "scale_up": {
            "id": "free", "family": "generic", "bytes_per_s": HUGE_BYTES_PER_S, "latency_s": 0.0,
        }}},
        vanishes=0.06,
        costly={"threshold": 1},
        costly_scenario={"serving": {"traffic": {
            "offline": False, "concurrency": 4, "num_requests": 40, "input_tokens": 64, "output_tokens": 128,
        }}},
    ),
)  # fmt: skip

REGISTRY.add(TECHNIQUE.id, TECHNIQUE)
