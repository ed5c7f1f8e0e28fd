"""ZeRO-3 with the optimizer on the host of four H100: the host alone against host and devices together."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "deep-optimizer-states")
fixed = EXPERIMENT.fixed


def scenario(shape: list[int], share: float, values: Values) -> Values:
    """One step with a share of the update on the devices."""
    layers, hidden, heads = shape
    technique = [{"deep-optimizer-states": {"share": share}}] if share else []
    return {
        "model": {
            "name": f"GPT, hidden {hidden}",
            "family": "dense",
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "vocab_size": fixed("vocab_size"),
            "num_attention_heads": heads,
            "intermediate_size": 4 * hidden,
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
            "device": "h100-sxm-80gb",
            "nodes": 1,
            "devices_per_node": fixed("gpus"),
            "host_memory_bytes": fixed("host_memory_gb") * 1e9,
            "host_memory_bytes_per_s": values["host_memory_gb_per_s"] * 1e9,
            "host_cores": round(96 * values["core_share"]),
        },
        "training": {"seq_len": fixed("seq_len"), "global_batch": fixed("gpus"), "framework": "deepspeed"},
        "plan": {
            "zero": 3,
            "mbs": 1,
            "recompute": {"policy": "full"},
            "offload": {"optimizer": 1.0, "update": "in_turn", "widening": "host"},
        },
        "techniques": technique,
    }


def gain(shape: list[int], values: Values) -> float:
    """Iteration on the host alone over the one at the best share."""
    times = [simulated(scenario(shape, share, values)).step_time_s for share in fixed("shares")]
    return times[0] / min(times[1:])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "speedup": lambda values: max(gain(shape, values) for shape in fixed("models")),
        "never-slower": lambda values: min(gain(shape, values) for shape in fixed("models")),
    }
