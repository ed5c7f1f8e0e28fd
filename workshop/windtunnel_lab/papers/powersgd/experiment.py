"""Low-rank gradients against whole ones and against largest entries, on 16 workers over Ethernet."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
SEQUENCE = 32


def scenario(values: Values, share: float = 1.0) -> Values:
    """One step with whole gradients; `share`: of the network's rate."""
    shape, each = fixed("shape"), int(values["tokens"] // SEQUENCE)
    return {
        "model": {
            "family": "dense",
            "name": "as wide as the LSTM",
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
            "max_position_embeddings": SEQUENCE,
        },
        "cluster": {
            "device": EXPERIMENT.setting["device"],
            "nodes": fixed("nodes"),
            "devices_per_node": fixed("gpus_per_node"),
            "scale_up": {
                "id": "pcie",
                "bytes_per_s": values["pcie_gb_per_s"] * share * 1e9,
                "latency_s": "5 us",
                "topology": "host",
                "family": "pcie3",
            },
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": fixed("nic_gbit") * share * 1e9 / 8},
        },
        "training": {
            "seq_len": SEQUENCE,
            "global_batch": fixed("nodes") * fixed("gpus_per_node") * each,
            "precision": "fp32",
            "framework": "generic",
            "attention": "unfused",
            "optimizer": "momentum",
            "grad_reduce_precision": "fp32",
        },
        "plan": {"zero": 0, "mbs": each, "overlap": {"grad_reduce": False}},
    }


def gain(values: Values, rank: int, share: float = 1.0) -> float:
    """Seconds of a step with whole gradients over those with factors."""
    step = scenario(values, share)
    return simulated(step).step_time_s / simulated(step | {"techniques": [{"powersgd": {"rank": rank}}]}).step_time_s


def gathered(values: Values) -> float:
    """Largest entries and their positions in as many bytes as two factors of rank 2, against these."""
    shape, step = fixed("shape"), scenario(values)
    hidden = shape["hidden"]
    sides = [(hidden, 3 * hidden), (hidden, hidden), (hidden, 4 * hidden), (4 * hidden, hidden)] * shape["layers"]
    sides.append((shape["vocab"], hidden))
    density = 4.0 * 2.0 * sum(k + n for k, n in sides) / (8.0 * sum(k * n for k, n in sides))
    given = {"kind": "sparse", "density": density, "error_feedback": True}
    sparse = step | {"plan": step["plan"] | {"compression": {"gradients": given}}}
    factors = step | {"techniques": [{"powersgd": {"rank": 2}}]}
    return simulated(sparse).step_time_s / simulated(factors).step_time_s


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "least": lambda values: min(gain(values, rank) for rank in fixed("ranks")),
        "backend": lambda values: gain(values, 4, values["gloo_share"]) / gain(values, 4),
        "gathered": gathered,
    }


def plot(_: list[ClaimResult]) -> Any:
    """Gain over ranks on both backends."""
    values, ranks = central(EXPERIMENT.setting), (1, 2, 4, 8, 16, 32)
    backends = {"NCCL": 1.0, "Gloo": values["gloo_share"]}
    series = {name: curve(ranks, lambda rank, s=share: gain(values, rank, s)) for name, share in backends.items()}
    return beside({"16 workers": series}, "rank", "gain over all-reduced gradients", log_x=True, levels={"none": 1.0})
