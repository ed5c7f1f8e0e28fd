"""A 175B model with MegaScale's switches on and off, on 12,288 and on 256 GPUs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
OFF: Values = {
    "parallel_block": False,
    "overlap_tp": False,
    "overlap_pp": False,
    "overlap_dp": False,
    "async_input": False,
}
ORDER = ("parallel_block", "window", "overlap_tp", "overlap_pp", "overlap_dp", "operators", "async_input")
"""Switches as the paper's table adds them; operators are FlashAttention-2."""


def scenario(values: Values, gpus: int, batch: int, on: tuple[str, ...]) -> Values:
    """One step with some switches on."""
    knobs = OFF | {name: True for name in on if name in OFF}
    if "window" in on and values["window"] < fixed("seq_len"):
        knobs["window"] = values["window"]
    per_node, hidden = fixed("devices_per_node"), fixed("hidden")
    return {
        "model": {
            "name": "GPT of 175b",
            "family": "dense",
            "hidden_size": hidden,
            "num_hidden_layers": fixed("layers"),
            "num_attention_heads": fixed("heads"),
            "intermediate_size": 4 * hidden,
            "vocab_size": fixed("vocab_size"),
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
            "device": fixed("device"),
            "nodes": gpus // per_node,
            "devices_per_node": per_node,
            "scale_out": {
                "nics_per_node": fixed("nics_per_node"),
                "nic_bytes_per_s": f"{fixed('nic_gbit')} Gb/s",
                "family": "roce",
            },
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": batch,
            "framework": fixed("framework"),
            "attention": "flash2" if "operators" in on else fixed("baseline_attention"),
            "input_s": values["input_s"],
        },
        "plan": {
            "tp": fixed("tp"),
            "pp": fixed("pp"),
            "vpp": fixed("vpp"),
            "mbs": values["mbs"],
            "recompute": {"policy": "selective"},
            "zero": 1,
            "overlap": {"tp": False, "p2p": False, "grad_reduce": False, "param_gather": False},
        },
        "techniques": [{"megascale": knobs}],
    }


def rate(values: Values, gpus: int, batch: int, on: tuple[str, ...] = ORDER) -> float:
    """Sequences per second and GPU."""
    return batch / simulated(scenario(values, gpus, batch, on)).step_time_s / gpus


def gain(values: Values, gpus: int, batch: int) -> float:
    """All switches over none."""
    return rate(values, gpus, batch) / rate(values, gpus, batch, ())


def small_gain(values: Values) -> float:
    """The table's last row over its first."""
    gpus, batch = fixed("gpus_small"), fixed("batch_small")
    return rate(values, gpus, 3 * batch) / rate(values, gpus, batch, ())


def least_rise(values: Values) -> float:
    """Smallest gain of one more switch."""
    gpus, batch = fixed("gpus_small"), fixed("batch_small")
    rates = [rate(values, gpus, batch, ORDER[:n]) for n in range(len(ORDER) + 1)]
    return min(after / before for before, after in pairwise(rates))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    gpus, batch, few, small = (fixed(name) for name in ("gpus", "batch", "gpus_small", "batch_small"))
    return {
        "mfu": lambda v: 100 * simulated(scenario(v, gpus, batch, ORDER)).mfu,
        "gain": lambda v: gain(v, gpus, batch),
        "small/gain": small_gain,
        "switches/rise": least_rise,
        "batch/bubble": lambda v: rate(v, few, 3 * small) / rate(v, few, small),
        "scale/gain-grows": lambda v: gain(v, gpus, batch) / gain(v, few, 3 * small),
    }


def plot(results: list[ClaimResult]) -> Any:
    """MFU with the switches on up to each, in the order of the paper's table."""
    values, full = central(EXPERIMENT.setting), {c.id.split("/", 1)[1]: c for c in results}["mfu"].published
    panels = {}
    for gpus, batch in ((fixed("gpus_small"), fixed("batch_small")), (fixed("gpus"), fixed("batch"))):
        point = {float(len(ORDER)): full} if gpus == fixed("gpus") else {}
        line = curve(
            range(len(ORDER) + 1),
            lambda n, g=gpus, b=batch: 100 * simulated(scenario(values, g, b, ORDER[:n])).mfu,
            point,
        )
        panels[f"{gpus:,} A100, batch {batch:,}"] = {"MegaScale": line}
    return beside(panels, "switches on, in the order of the paper's table", "MFU, %")
