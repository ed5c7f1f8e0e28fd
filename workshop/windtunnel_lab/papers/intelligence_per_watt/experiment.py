"""Watts and joules of a query on local and cloud accelerators, and what a router between them saves."""

from __future__ import annotations

import numpy as np

from windtunnel_lab.models.clusters.intelligence_per_watt import Answered, routed
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "intelligence-per-watt")
fixed = EXPERIMENT.fixed


def answered(model: str, device: str, devices: int = 1, at_once: int = 1) -> Answered:
    """A model on an accelerator: simulated watts and joules, accuracy set to 1 since only ratios count."""
    query = fixed("query")
    run = served(
        {
            "model": model,
            "cluster": {"device": device, "nodes": 1, "devices_per_node": devices},
            "serving": {
                "pools": [{"plan": {"tp": devices}}],
                "traffic": {
                    "concurrency": at_once,
                    "num_requests": max(8, 4 * at_once),
                    "input_tokens": query["prompt"],
                    "output_tokens": query["answer"],
                },
            },
        }
    )
    watts, joules = float(run.power["mean_w_per_device"]), float(run.power["energy_per_output_token_j"])
    return Answered(1.0, watts * devices, joules * query["answer"])


def against_cloud(field: str) -> list[float]:
    """A figure of the cloud's accelerator over the local one, by model."""
    local, cloud = fixed("local")["device"], fixed("cloud")["device"]
    return [getattr(answered(m, cloud), field) / getattr(answered(m, local), field) for m in fixed("models")]


def accelerators() -> float:
    """Accuracy a watt of 2025 over 2023."""
    own, model = fixed("local"), fixed("models")[0]
    return answered(model, own["device"]).per_watt / answered(model, own["before"]).per_watt


def saved(values: Values, accuracy: float) -> float:
    """Share of energy that a router saves."""
    cloud, router = fixed("cloud"), fixed("router")
    right = np.random.default_rng(router["seed"]).random(router["queries"]) < fixed("coverage")
    there = answered(cloud["frontier"], cloud["frontier_device"], cloud["devices"], values["cloud_concurrency"])
    here = answered(fixed("models")[0], fixed("local")["device"])
    return routed(right, here, there, accuracy, router["seed"] + 1, fallback=True).saved


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    factors, router = fixed("factors"), fixed("router")
    return {
        "years": lambda _: float(factors["models"] * factors["accelerators"]),
        "years/accelerators": lambda _: accelerators(),
        "cloud/watt": lambda _: min(against_cloud("per_watt")),
        "cloud/joule": lambda _: float(np.mean(against_cloud("per_joule"))),
        "router/oracle": lambda v: 100.0 * saved(v, 1.0),
        "router/realistic": lambda v: saved(v, router["accuracy"]) / saved(v, 1.0),
    }
