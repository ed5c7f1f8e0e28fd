"""Zeroth-order fine-tuning of OPT-175B from host memory: one device against several."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def rate(gpus: int, values: Values, technique: list[Values]) -> float:
    """Tokens a second of a node with so many devices."""
    sequences = fixed("mbs") * max(gpus // 2, 1)
    seconds = simulated(
        {
            "model": fixed("model"),
            "cluster": {
                "device": fixed("device"),
                "nodes": 1,
                "devices_per_node": gpus,
                "host_memory_bytes": fixed("host_memory_tb") * 1e12,
                "devices_per_host_link": min(values["devices_per_link"], gpus),
            },
            "training": {
                "seq_len": values["seq_len"],
                "global_batch": sequences,
                "framework": "deepspeed",
                "precision": "fp16",
                "gradients": "zeroth_order",
            },
            "plan": {"mbs": fixed("mbs"), "zero": 0, "offload": {"params": 1.0}},
            "techniques": technique,
        }
    ).step_time_s
    return float(sequences * values["seq_len"] / seconds)


def several(values: Values, *, slices: bool) -> float:
    """On several devices, both passes apart."""
    return rate(values["gpus"], values, [{"distzo2": {"apart": True, "slices": slices}}])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "speedup": lambda values: several(values, slices=True) / rate(1, values, []),
        "slices": lambda values: several(values, slices=True) / several(values, slices=False),
    }
