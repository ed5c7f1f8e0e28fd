"""Llama 3 in torchtitan: eager FSDP2 against compiled layers with gathers moved ahead."""

from __future__ import annotations

from itertools import product
from typing import Any

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def scenario(case: list[Any], policy: str, values: Values, technique: list[Values]) -> Values:
    """One step."""
    model, gpus, tp = case
    return {
        "model": model,
        "cluster": {"device": "h100-sxm-80gb", "nodes": gpus // 8, "devices_per_node": 8},
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": gpus // tp * values["mbs"],
            "framework": "torchtitan",
            "compile": False,
        },
        "plan": {"mbs": values["mbs"], "tp": tp, "zero": 3, "recompute": {"policy": policy}},
        "techniques": technique,
    }


def gains(values: Values) -> list[tuple[float, float]]:
    """Throughput gained and memory saved, per cent, of each case whose baseline fits."""
    found = []
    for case, policy in product(fixed("models"), fixed("policies")):
        eager = simulated(scenario(case, policy, values, []))
        if not eager.fits:
            continue
        runs = [
            simulated(scenario(case, policy, values, [{"simplefsdp": {"gathered_layers": n}}]))
            for n in fixed("gathered")
        ]
        best = min(runs, key=lambda run: run.step_time_s)
        saved = 100 * (1 - runs[0].reserved_bytes / eager.reserved_bytes)
        found.append((100 * (eager.step_time_s / best.step_time_s - 1), saved))
    return found


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "throughput": lambda values: max(gain for gain, _ in gains(values)),
        "memory": lambda values: max(saved for _, saved in gains(values)),
        "never-worse": lambda values: min(gain for gain, _ in gains(values)),
    }
