"""GPT-3 13B and 175B on one RTX 4090 with drives: Fuyou against ZeRO-Infinity."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, Simulated, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def scenario(size: str, batch: int, values: Values, technique: Values) -> Values:
    """One step on one RTX 4090."""
    layers, hidden, heads = fixed("models")[size]
    drives, read = values["drives"], values["drives_read_gb_per_s"]
    return {
        "model": {
            "name": f"GPT-3 {size}",
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
            "device": "rtx-4090",
            "nodes": 1,
            "devices_per_node": 1,
            "host_cores": fixed("host_cores"),
            "host_memory_bytes": fixed("host_memory_gb") * 1e9,
            "host_memory_bytes_per_s": values["host_memory_gb_per_s"] * 1e9,
            "storage": {
                "bytes": drives * fixed("drive_tb") * 1e12,
                "read_bytes_per_s": drives * read * 1e9,
                "write_bytes_per_s": drives * read * 3.4 / 6.5 * 1e9,
            },
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": batch,
            "precision": "fp16",
            "framework": "deepspeed",
        },
        "plan": {"mbs": batch, "recompute": {"policy": "full"}},
        "techniques": [technique],
    }


def fuyou(size: str, batch: int, share: float, values: Values) -> Simulated:
    """Fuyou with a share of the layers swapped."""
    layers = fixed("models")[size][0]
    knobs = {"recomputed_layers": round(layers * (1.0 - share)), "prefetch_layers": 2}
    return simulated(scenario(size, batch, values, {"fuyou": knobs}))


def zero_infinity(size: str, batch: int, values: Values) -> Simulated:
    """ZeRO-Infinity: weights and state on drives, gradients and checkpoints in host memory."""
    knobs = {
        "params": "nvme",
        "optimizer": "nvme",
        "gradients": "host",
        "activations": "host",
        "prefetch_layers": 2,
        "pinned_gb": values["pinned_gb"],
        "pipelined": values["zero_update"] == "pipelined",
    }
    return simulated(scenario(size, batch, values, {"zero-infinity": knobs}))


def tflops(run: Simulated) -> float:
    """TFLOP/s, recomputation counted; none where it does not fit."""
    return run.hfu * 165.2 if run.fits else 0.0


def fuyou_rate(values: Values) -> float:
    """Best planned swap and batch by throughput; the rate of that run."""
    runs = [(batch, fuyou("13b", batch, share, values)) for batch in fixed("batches") for share in fixed("swapped")]
    fitting = [(batch / run.step_time_s, tflops(run)) for batch, run in runs if run.fits]
    return max(fitting, default=(0.0, 0.0))[1]


def zero_rate(values: Values) -> float:
    """ZeRO-Infinity at its best batch."""
    return max(tflops(zero_infinity("13b", batch, values)) for batch in fixed("batches"))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    least = fixed("batches")[0]
    return {
        "fuyou/13b": fuyou_rate,
        "zero-infinity/13b": zero_rate,
        "fuyou/175b": lambda values: float(fuyou("175b", least, 0.0, values).fits),
        "zero-infinity/175b": lambda values: float(zero_infinity("175b", least, values).fits),
    }
