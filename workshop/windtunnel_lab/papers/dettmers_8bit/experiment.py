"""Data parallelism on 96 GPUs with gradients in 32 and in 8 bits."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__, "dettmers-8bit")
fixed = EXPERIMENT.fixed
SIZES = tuple(range(4, 41))
"""Sequences a GPU that are tried."""


def scenario(values: Values, nodes: int, each: int, sequences: int, bits: int, *, beside: bool) -> Values:
    """One step of replicas with so many sequences each."""
    shape = fixed("shape")
    step: Values = {
        "model": {
            "family": "dense",
            "name": "as wide as AlexNet",
            "hidden_size": shape["hidden"],
            "num_hidden_layers": shape["layers"],
            "num_attention_heads": shape["heads"],
            "intermediate_size": 4 * shape["hidden"],
            "vocab_size": shape["vocab"],
            "gated_mlp": False,
            "hidden_act": "relu",
            "norm": "layernorm",
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "position_embedding": "learned",
            "max_position_embeddings": fixed("seq_len"),
        },
        "cluster": {
            "device": EXPERIMENT.setting["device"],
            "nodes": nodes,
            "devices_per_node": each,
            "scale_up": {
                "id": "pcie",
                "bytes_per_s": values["pcie_gb_per_s"] * 1e9,
                "latency_s": "5 us",
                "topology": "host",
                "family": "pcie3",
            },
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": values["nic_gb_per_s"] * 1e9},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": nodes * each * sequences,
            "precision": "fp32",
            "framework": "generic",
            "attention": "unfused",
            "optimizer": "momentum",
            "grad_reduce_precision": "fp32",
        },
        "plan": {"zero": 0, "mbs": sequences, "overlap": {"grad_reduce": beside}},
    }
    if bits < 32:
        step["techniques"] = [{"dettmers-8bit": {"bits": bits, "between": values["between"]}}]
    return step


def speed_up(values: Values, sequences: int, bits: int, gpus: int) -> float:
    """Sequences a second on all GPUs over those on one."""
    each = fixed("gpus_per_node")
    many = simulated(scenario(values, gpus // each, each, sequences, bits, beside=True)).step_time_s
    alone = simulated(scenario(values, 1, 1, sequences, 32, beside=True)).step_time_s
    return float(gpus * alone / many)


def with_8_bits(values: Values) -> float:
    """Speed-up with 8 bits where that with 32 is the published one, between the two loads around it."""
    gpus, published = fixed("gpus"), fixed("speed_up_32")
    above = bisect_left(SIZES, published, 1, len(SIZES) - 1, key=lambda size: speed_up(values, size, 32, gpus))
    around = SIZES[above - 1], SIZES[above]
    wide, small = ([speed_up(values, size, bits, gpus) for size in around] for bits in (32, 8))
    return float(np.interp(published, wide, small))


def transfer(values: Values) -> float:
    """Seconds that a step waits for the exchange, 32 bits over 8."""
    alone = simulated(scenario(values, 1, 1, 1, 32, beside=False)).step_time_s
    waits = [simulated(scenario(values, 2, 1, 1, bits, beside=False)).step_time_s - alone for bits in (32, 8)]
    return waits[0] / waits[1]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"transfer": transfer, "speed-up": with_8_bits}


def plot(results: list[ClaimResult]) -> Any:
    """Speed-up over GPUs."""
    values, published = central(EXPERIMENT.setting), {32: fixed("speed_up_32"), 8: results[-1].published}
    gpus = fixed("gpus")
    own = min(SIZES, key=lambda size: abs(speed_up(values, size, 32, gpus) - published[32]))
    series = {
        f"{bits} bits": [
            (float(some), published[bits] if some == gpus else float("nan"), speed_up(values, own, bits, some))
            for some in (4, 8, 16, 32, 48, 64, 96)
        ]
        for bits in (32, 8)
    }
    return beside({"gradients": series}, "GPUs", "speed-up over one")
