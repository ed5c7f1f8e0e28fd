"""FSDP over a slow network: weights and gradients as the framework sends them, and in eight bits."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
PER_NODE = 8


def scenario(values: Values) -> Values:
    """One step of FSDP."""
    shape, each = fixed("shape"), values["sequences"]
    return {
        "model": {
            "family": "dense",
            "name": "GPT 1.3B",
            "hidden_size": shape["hidden"],
            "num_hidden_layers": shape["layers"],
            "num_attention_heads": shape["heads"],
            "intermediate_size": 4 * shape["hidden"],
            "vocab_size": shape["vocab"],
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "position_embedding": "learned",
            "max_position_embeddings": fixed("seq_len"),
        },
        "cluster": {
            "device": "v100-sxm-32gb",
            "nodes": fixed("nodes"),
            "devices_per_node": PER_NODE,
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": fixed("nic_gbit") * 1e9 / 8},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": fixed("nodes") * PER_NODE * each,
            "precision": "fp16",
            "framework": "fsdp1",
            "grad_reduce_precision": "fp16",
            "attention": "unfused",
        },
        "plan": {
            "zero": 3,
            "mbs": each,
            "recompute": {"policy": values["recompute"]},
            "compression": {"gather_bits": values["gather_bits"]},
            "overlap": {"one_communicator": fixed("one_communicator")},
        },
    }


def speed_up(values: Values) -> float:
    """Seconds of a step of FSDP over those of QSDP."""
    step, bits = scenario(values), fixed("bits")
    knobs = {"weight_bits": bits, "gradient_bits": bits, "bucket": fixed("bucket")}
    return simulated(step).step_time_s / simulated(step | {"techniques": [{"qsdp": knobs}]}).step_time_s


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"speed-up": speed_up}


def plot(results: list[ClaimResult]) -> Any:
    """Gain over the network's rate, as the paper's bars have it."""
    values, knobs = central(EXPERIMENT.setting), {"weight_bits": fixed("bits"), "gradient_bits": fixed("bits")}

    def gain(gbit: float) -> float:
        step = scenario(values)
        step["cluster"]["scale_out"]["nic_bytes_per_s"] = gbit * 1e9 / 8
        small = simulated(step | {"techniques": [{"qsdp": knobs | {"bucket": fixed("bucket")}}]})
        return simulated(step).step_time_s / small.step_time_s

    line = curve((5, 10, 20, 50, 100), gain, {float(fixed("nic_gbit")): results[0].published})
    return beside({"GPT 1.3B on 32 V100": {"QSDP": line}}, "Gb/s between nodes", "gain over FSDP", log_x=True)
