"""Time to first token of parallel narrow layers against tensor parallelism of a standard model."""

from __future__ import annotations

from itertools import product
from statistics import geometric_mean
from typing import Any

from windtunnel import catalog
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def first_token_s(model: str, tp: int, context: int, batch: int, techniques: list[str]) -> float:
    """Seconds of the engine's iteration over the prompt, which ends with the first token."""
    scenario = {
        "model": model,
        "cluster": {"device": fixed("device").get(model, fixed("device")["most"]), "nodes": 1, "devices_per_node": 8},
        "techniques": techniques,
        "serving": {
            "engine": fixed("engine"),
            "engine_version": fixed("engine_version"),
            "pools": [{"plan": {"tp": tp}}],
            "traffic": {
                "offline": True,
                "num_requests": batch,
                "input_tokens": context - 1,
                "output_tokens": 1,
            },
        },
    }
    return float(served(scenario).iterations["mean_s"])


def gain(values: Values) -> float:
    """Per cent by which the first token is sooner."""
    ratios = []
    for model, tp, context in product(fixed("models"), fixed("tp"), values["contexts"]):
        if model in fixed("device") and tp < max(fixed("tp")):
            continue
        plain, parallel = (first_token_s(model, tp, context, fixed("batch"), t) for t in ([], ["kraken"]))
        ratios.append(plain / parallel)
    return 100.0 * (geometric_mean(ratios) - 1.0)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {"ttft": gain}


def plot(results: list[ClaimResult]) -> Any:
    """Speed-up of the first token by model, at each context."""
    tp, panels = max(fixed("tp")), {}
    for context in central(EXPERIMENT.setting)["contexts"]:
        sizes = {catalog.model(model).num_hidden_layers: model for model in fixed("models")}

        def gain(layers: int, context: int = context, sizes: dict[int, str] = sizes) -> float:
            plain, parallel = (first_token_s(sizes[layers], tp, context, fixed("batch"), t) for t in ([], ["kraken"]))
            return 100.0 * (plain / parallel - 1.0)

        panels[f"{context:,} tokens, tp {tp}"] = {"Kraken": curve(sorted(sizes), gain)}
    level = {f"published mean: {results[0].published:g}": results[0].published}
    return beside(panels, "layers: 1.3B to 175B", "first token sooner, %", levels=level)
