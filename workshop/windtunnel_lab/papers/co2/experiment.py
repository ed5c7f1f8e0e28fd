"""Throughput from 8 to 128 GPUs with local steps whose average travels next to them, and with gradients every step."""

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


def rate(values: Values, gpus: int, gbit: float, *, local: bool) -> float:
    """Sequences a second."""
    shape, each = fixed("shape"), values["sequences"]
    step: Values = {
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
            "device": "a100-sxm-80gb",
            "nodes": gpus // PER_NODE,
            "devices_per_node": PER_NODE,
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": gbit * 1e9 / 8},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": gpus * each,
            "precision": "bf16",
            "framework": "ddp",
        },
        "plan": {"zero": 0, "mbs": each},
    }
    if local:
        step["techniques"] = [{"co2": {"steps": values["steps"]}}]
    return float(gpus * each / simulated(step).step_time_s)


def scalability(values: Values, gbit: float, *, local: bool = True) -> float:
    """Throughput of many GPUs over that of few and their number."""
    few, many = fixed("gpus")["few"], fixed("gpus")["many"]
    return float(rate(values, many, gbit, local=local) / rate(values, few, gbit, local=local) * few / many)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    tcp, rdma = fixed("tcp_gbit"), fixed("rdma_gbit")
    return {
        "tcp": lambda values: scalability(values, tcp),
        "rdma": lambda values: scalability(values, rdma),
        "baseline": lambda values: scalability(values, tcp) / scalability(values, tcp, local=False),
    }


def plot(results: list[ClaimResult]) -> Any:
    """Throughput of a GPU over that on the fewest, with local steps and without."""
    values, few, panels = central(EXPERIMENT.setting), fixed("gpus")["few"], {}
    for key, gbit in (("tcp", fixed("tcp_gbit")), ("rdma", fixed("rdma_gbit"))):
        panels[f"{gbit} Gb/s"] = {
            name: curve(
                (8, 16, 32, 64, 128),
                lambda n, g=gbit, on=local: rate(values, n, g, local=on) / rate(values, few, g, local=on) * few / n,
                {float(fixed("gpus")["many"]): c.published for c in results if local and c.id.endswith(key)},
            )
            for name, local in (("CO2", True), ("all-reduce every step", False))
        }
    return beside(panels, "GPUs", "throughput of a GPU over that on 8", log_x=True)
