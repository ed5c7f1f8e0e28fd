"""Tokens a second with zones of length over those of a ring of all ranks, averaged over models and clusters."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=512)
def tokens_per_s(model: str, gpus: int, mean: float, cv: float, nic_gbit: float, seed: int, *, zones: bool) -> float:
    """Tokens per second of one training step in which all GPUs share each row of packed documents."""
    longest = gpus * fixed("tokens_per_gpu")
    step = {
        "model": model,
        "cluster": {
            "device": "a800-sxm-80gb",
            "nodes": gpus // 8,
            "devices_per_node": 8,
            "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": nic_gbit * 1e9 / 8, "latency_s": "5 us"},
        },
        "training": {
            "seq_len": longest,
            "global_batch": 1,
            "framework": "megatron_core",
            "lengths": {
                "distribution": "lognormal",
                "mean": mean,
                "cv": cv,
                "max": longest,
                "batches": 1,
                "seed": seed,
            },
        },
        "plan": {"cp": gpus, "mbs": 1, "zero": 1},
        "techniques": ["zeppelin"] if zones else [],
    }
    return simulate_training(step, sensitivities=False).tokens_per_s


def speedup(values: Values) -> float:
    """Mean over models and clusters."""
    case = values["mean"], values["cv"], values["nic_gbit"]
    gains = [
        tokens_per_s(model, gpus, *case, seed, zones=True) / tokens_per_s(model, gpus, *case, seed, zones=False)
        for model in fixed("models")
        for gpus in fixed("gpus")
        for seed in fixed("seeds")
    ]
    return sum(gains) / len(gains)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"speedup": speedup}


def plot(results: list[ClaimResult]) -> Any:
    """Speed-up over GPUs by model, a mean over drawn batches."""
    values, panels = central(EXPERIMENT.setting), {}
    case = values["mean"], values["cv"], values["nic_gbit"]

    def gain(gpus: int, model: str) -> float:
        both = (sum(tokens_per_s(model, gpus, *case, s, zones=on) for s in fixed("seeds")) for on in (True, False))
        zones, ring = both
        return zones / ring

    for model in fixed("models"):
        panels[model.split("/")[-1]] = {"Zeppelin": curve(fixed("gpus"), partial(gain, model=model))}
    level = {f"published mean: {results[0].published:g}": results[0].published}
    return beside(panels, "GPUs", "speed-up over a ring of all", log_x=True, levels=level)
