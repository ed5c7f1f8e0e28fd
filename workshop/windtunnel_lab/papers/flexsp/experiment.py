"""Tokens a second with solved groups over those of groups of one size."""

from __future__ import annotations

from functools import lru_cache

from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=64)
def tokens_per_s(cp: int, mean: float, cv: float, seed: int, *, solved: bool) -> float:
    """Tokens per second of one training step of the 7B model on all GPUs."""
    longest, dp = 1024 * fixed("context_k"), fixed("gpus") // cp
    rows = max(round(fixed("sequences") * mean / longest / dp), 1) * dp
    step = {
        "model": "gpt3-6.7b",
        "cluster": {
            "device": "a100-sxm-40gb",
            "nodes": fixed("gpus") // 8,
            "devices_per_node": 8,
            "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": 50e9 / 8, "latency_s": "4 us"},
        },
        "training": {
            "seq_len": longest,
            "global_batch": rows,
            "framework": "deepspeed",
            "attention": "flash2",
            "lengths": {
                "distribution": "lognormal",
                "mean": mean,
                "cv": cv,
                "packing": "best_fit",
                "batches": 1,
                "seed": seed,
            },
        },
        "plan": {"cp": cp, "cp_kind": "all_to_all", "mbs": 1, "zero": 3, "recompute": {"policy": "full"}},
        "techniques": ["flexsp"] if solved else [],
    }
    return simulate_training(step, sensitivities=False).tokens_per_s


def speedup(values: Values, degrees: tuple[int, ...]) -> float:
    """Speed-up of solved sequence-parallel groups over the best of some static degrees."""
    case, gains = (values["mean"], values["cv"]), []
    for seed in fixed("seeds"):
        static = max(tokens_per_s(cp, *case, seed, solved=False) for cp in degrees)
        gains.append(tokens_per_s(fixed("cp"), *case, seed, solved=True) / static)
    return float(sum(gains) / len(gains))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    cp = fixed("cp")
    return {
        "speedup": lambda values: speedup(values, (cp,)),
        "adapts": lambda values: speedup(values, (cp // 2, cp)),
    }
