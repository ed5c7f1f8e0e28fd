"""Ternary against 32-bit gradients over workers, bandwidth and weights next to computation."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def gain(values: Values, gpus: int, weights: str, gbit: float) -> float:
    """Seconds of a step with 32-bit gradients over those with ternary ones."""
    shape, each, sequences = fixed("shape"), fixed("gpus_per_node"), fixed("sequences")[weights]
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
            "device": fixed("device"),
            "nodes": gpus // each,
            "devices_per_node": each,
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": gbit * 1e9 / 8},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": gpus * sequences,
            "precision": "fp32",
            "framework": "generic",
            "attention": "unfused",
            "optimizer": "momentum",
            "grad_reduce_precision": "fp32",
        },
        "plan": {"zero": 0, "mbs": sequences},
    }
    ternary = step | {"techniques": [{"terngrad": {"between": values["between"]}}]}
    return simulated(step).step_time_s / simulated(ternary).step_time_s


def least(values: Values) -> float:
    """Smallest gain of all sizes on Ethernet."""
    return min(gain(values, gpus, "many", values["ethernet_gbit"]) for gpus in fixed("gpus"))


def bandwidth(values: Values) -> float:
    """Gain on the slow network over that on the fast one."""
    slow, fast = values["ethernet_gbit"], fixed("infiniband_gbit")
    return gain(values, 128, "many", slow) / gain(values, 128, "many", fast)


def weights(values: Values) -> float:
    """Gain with little computation over that with much."""
    fast = fixed("infiniband_gbit")
    return gain(values, 128, "many", fast) / gain(values, 128, "few", fast)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"least": least, "bandwidth": bandwidth, "weights": weights}


def plot(_: list[ClaimResult]) -> Any:
    """Gain over GPUs on both networks, with many and with few weights next to computation."""
    values = central(EXPERIMENT.setting)
    networks = {"1 Gb/s Ethernet": values["ethernet_gbit"], "100 Gb/s InfiniBand": fixed("infiniband_gbit")}
    panels = {
        f"{load} weights": {
            name: curve(fixed("gpus"), lambda n, w=load, g=gbit: gain(values, n, w, g))
            for name, gbit in networks.items()
        }
        for load in ("many", "few")
    }
    return beside(panels, "GPUs", "gain over 32-bit gradients", log_x=True, levels={"none": 1.0})
