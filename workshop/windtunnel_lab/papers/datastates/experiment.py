"""Saves after every step: the default engine of the framework against lazy copies."""

from __future__ import annotations

from windtunnel.runs.results import RunResult
from windtunnel_lab.reproduce.claims import Measure, ran
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
_STEPS = 200


def scenario(model: str, values: Values, *, every: int = 1) -> Values:
    """A run without failures that saves each `every` steps by the default engine."""
    nodes, ports = fixed("models")[model]["nodes"], fixed("ports")
    return {
        "model": model,
        "cluster": {
            **fixed("node"),
            "nodes": nodes,
            "scale_out": {
                "nics_per_node": ports["nics_per_node"],
                "nic_bytes_per_s": ports["nic_gbit"] * 1e9 / 8,
                "family": "slingshot",
            },
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": values["micro_batches"] * fixed("replicas"),
            "framework": "megatron_core",
        },
        "plan": {"tp": 4, "pp": nodes, "mbs": 1, "zero": 1, "recompute": fixed("recompute")},
        "run": {
            "steps": _STEPS * every,
            "failures": "none",
            "replications": 1,
            "checkpoint": {
                "interval_steps": every,
                "tiers": [{"to": "storage", "pinned": False}],
                "writer_bytes_per_s": values["torch_save_gb_per_s"] * 1e9,
                "storage_write_bytes_per_s": fixed("storage_gb_per_s") * 1e9 * values["storage_share"],
            },
        },
    }


def both(model: str, values: Values, *, every: int = 1) -> tuple[RunResult, RunResult]:
    """The run by the default engine, and lazily."""
    plain = scenario(model, values, every=every)
    lazy = {"techniques": [{"datastates": {"buffer_gib": fixed("buffer_gib")}}]}
    return ran(plain), ran(plain | lazy)


def lost_s(run: RunResult) -> float:
    """Seconds that steps lose to one save."""
    (tier,) = run.checkpoint["tiers"]
    return float(tier["block_s"] + tier["slowed_s"])


def blocking(values: Values) -> float:
    """Default over lazy, largest over models."""
    return max(lost_s(plain) / lost_s(lazy) for plain, lazy in (both(model, values) for model in fixed("models")))


def stepping_s(run: RunResult) -> float:
    """Seconds of the run without its start."""
    return float(run.seconds["work"] + run.seconds["save"])


def gain(values: Values, models: list[str], *, every: int = 1) -> float:
    """Time of the run, default over lazy, largest over models."""
    runs = [both(model, values, every=every) for model in models]
    return max(stepping_s(plain) / stepping_s(lazy) for plain, lazy in runs)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    models = list(fixed("models"))
    return {
        "blocking": blocking,
        "run": lambda values: gain(values, models),
        "long-step": lambda values: gain(values, models[:1], every=64),
    }
