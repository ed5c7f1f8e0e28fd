"""BERT-Large over Ethernet: Adam against 1-bit Adam after its warm-up."""

from __future__ import annotations

from typing import Any

from windtunnel import catalog
from windtunnel.cost.coefficients import Coefficients
from windtunnel.specs.compression import GradientCompression
from windtunnel.training.data_parallel.gradient_compression import CompressedExchange, Shapes
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__, "one-bit-adam")
fixed = EXPERIMENT.fixed
BERT_LARGE: Values = {
    "family": "encoder",
    "name": "BERT-Large",
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 30522,
    "gated_mlp": False,
    "hidden_act": "gelu",
    "norm": "layernorm",
    "attention_bias": True,
    "mlp_bias": True,
    "tie_word_embeddings": True,
    "position_embedding": "learned",
    "max_position_embeddings": 512,
}


def scenario(values: Values, gpus: int, work: Values, precision: str) -> Values:
    """One step of Adam."""
    return {
        "model": BERT_LARGE,
        "cluster": {
            "device": "v100-sxm-32gb",
            "nodes": gpus // fixed("gpus_per_node"),
            "devices_per_node": fixed("gpus_per_node"),
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": values["nic_gbit"] * 1e9 / 8},
        },
        "training": {
            "seq_len": work["seq_len"],
            "global_batch": work["batch"],
            "precision": precision,
            "framework": "deepspeed",
        },
        "plan": {"zero": 0, "mbs": work["mbs"], "overlap": {"grad_reduce": False}},
    }


def gain(values: Values, gpus: int, work: Values, precision: str) -> float:
    """Seconds of a step of Adam over those of 1-bit Adam after its warm-up."""
    step = scenario(values, gpus, work, precision)
    after = step | {"techniques": [{"one-bit-adam": {"warm_up": 0.0}}]}
    return simulated(step).step_time_s / simulated(after).step_time_s


def bert_large(values: Values) -> float:
    """Largest gain of all sizes that the batch divides."""
    work = {name: fixed(name) for name in ("seq_len", "batch", "mbs")}
    return max(gain(values, gpus, work, "fp16") for gpus in fixed("gpus"))


def squad(values: Values) -> float:
    """Gain at the fine-tuning batch."""
    work = fixed("squad")
    return gain(values, work["gpus"], work, values["squad_precision"])


def whole(compressed: float, warm_up: float) -> float:
    """Gain of a run of which a share of the steps is plain Adam's."""
    return 1.0 / (warm_up + (1.0 - warm_up) / compressed)


def warm_up(values: Values) -> float:
    """Share of BERT-Large's steps."""
    return float(fixed("warm_up_steps") / values["steps"])


def volume(values: Values) -> float:
    """Bytes of all steps in 16 bits over those with a warm-up and then signs."""
    given = GradientCompression(bits=1, block=None, error_feedback=True)
    signs = CompressedExchange(
        given, Shapes(0, 0, 0, 0, 0, given.bits), 2.0, catalog.device("v100-sxm-32gb"), Coefficients()
    )
    return whole(2.0 / signs.wire_bytes, warm_up(values))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "volume": volume,
        "bert-large": lambda values: whole(bert_large(values), warm_up(values)),
        "squad": lambda values: whole(squad(values), fixed("squad_warm_up")),
        "bert-large/compressed": bert_large,
        "squad/compressed": squad,
    }


def plot(results: list[ClaimResult]) -> Any:
    """Gain over GPUs at the two ends of the network's rate, and between."""
    work = {name: fixed(name) for name in ("seq_len", "batch", "mbs")}
    series = {}
    for end in ("low", "central", "high"):
        values = central(EXPERIMENT.setting) | {"nic_gbit": EXPERIMENT.setting["open"]["nic_gbit"][end]}
        series[f"{values['nic_gbit']:g} Gb/s a node"] = [
            (float(gpus), float("nan"), gain(values, gpus, work, "fp16")) for gpus in fixed("gpus")
        ]
    top = f"BERT-Large, compressed stage, published: up to {results[3].published:g}"
    return beside({top: series}, "GPUs", "gain", log_x=True)
