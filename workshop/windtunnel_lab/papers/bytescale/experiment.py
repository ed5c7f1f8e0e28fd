"""Tokens a second with ranks by length over those of a static mesh, by context."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=64)
def tokens_per_s(context_k: int, per_rank_k: int, mean: float, cv: float, seed: int, *, by_length: bool) -> float:
    """Tokens per second of one training step of the 7B model on all GPUs."""
    longest = 1024 * context_k
    cp = context_k // per_rank_k
    step = {
        "model": "meta-llama/Llama-2-7b-hf",
        "cluster": {
            "device": fixed("device"),
            "nodes": fixed("gpus") // 8,
            "devices_per_node": 8,
            "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": 50e9, "latency_s": "5 us", "family": "roce"},
        },
        "training": {
            "seq_len": longest,
            "global_batch": fixed("rows") * max(fixed("contexts_k")) // context_k,
            "framework": "megatron_core",
            "lengths": {
                "distribution": "lognormal",
                "mean": mean,
                "cv": cv,
                "packing": "best_fit",
                "batches": 1,
                "seed": seed,
            },
        },
        "plan": {"cp": cp, "mbs": 1, "zero": 1, "recompute": {"policy": "full"}},
        "techniques": ["bytescale"] if by_length else [],
    }
    return simulate_training(step, sensitivities=False).tokens_per_s


def speedup(values: Values, context_k: int) -> float:
    """Speed-up of ranks assigned by document length over a static mesh."""
    case = context_k, values["tokens_per_rank_k"], values["mean"], values["cv"]
    seeds = fixed("seeds")
    gains = [tokens_per_s(*case, s, by_length=True) / tokens_per_s(*case, s, by_length=False) for s in seeds]
    return sum(gains) / len(gains)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    short, long = fixed("contexts_k")
    return {
        "speedup/largest": lambda values: speedup(values, long),
        "speedup/grows": lambda values: speedup(values, long) / speedup(values, short),
    }


def plot(results: list[ClaimResult]) -> Any:
    """Speed-up over the longest context."""
    values, (short, long) = central(EXPERIMENT.setting), fixed("contexts_k")
    line = curve((short, 2 * short, 4 * short, long), lambda k: speedup(values, k), {float(long): results[0].published})
    return beside({"7B": {"ByteScale": line}}, "context, K tokens", "speed-up over a static mesh", log_x=True)
