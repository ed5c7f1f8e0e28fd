"""Whether 200 billion parameters fit 2,048 devices of 32 GiB, with five axes and with one of them left out."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "pangu-alpha")
fixed = EXPERIMENT.fixed


def share(values: Values, **left_out: Any) -> float:
    """Reserved bytes over the device's memory."""
    knobs = {"operators": fixed("operators"), "stages": values["stages"]} | left_out
    replicas = fixed("devices") // (knobs["operators"] * knobs["stages"])
    memory = fixed("memory_gib") * 2**30
    step = {
        "model": {
            "name": "PanGu-α 200B",
            "family": "dense",
            "hidden_size": fixed("hidden"),
            "num_hidden_layers": fixed("layers"),
            "num_attention_heads": fixed("heads"),
            "intermediate_size": 4 * fixed("hidden"),
            "vocab_size": fixed("vocab_size"),
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "tie_word_embeddings": True,
            "position_embedding": "learned",
            "max_position_embeddings": fixed("seq_len"),
        },
        "cluster": {
            "device": fixed("device"),
            "nodes": fixed("devices") // fixed("devices_per_node"),
            "devices_per_node": fixed("devices_per_node"),
            "memory_bytes": memory,
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": values["batch_per_replica"] * replicas,
            "framework": "generic",
            "precision": "fp16",
        },
        "plan": {"mbs": values["mbs"], "zero": 0},
        "techniques": [{"pangu-alpha": knobs}],
    }
    return float(simulated(step).reserved_bytes / memory)


def without_one(values: Values) -> float:
    """The least memory with one axis left out."""
    leaving: tuple[Values, ...] = ({"operators": 1}, {"stages": 1}, {"optimizer": False}, {"rematerialise": "none"})
    return min(share(values, **one) for one in leaving)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"fits": share, "needs-all": without_one}
