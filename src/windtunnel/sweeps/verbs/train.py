"""`train` in a sweep: one training step a cell, with prices of blocks shared between cells."""

from __future__ import annotations

from typing import Any

from windtunnel.sweeps.draws import drawn_factor
from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb

CELLS_OF_A_CACHE = 400
"""Cells after which shared prices are forgotten, so that memory stays."""


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Predict one step."""
    from windtunnel.training.predict import simulate_training
    from windtunnel.training.stage_costs.pricing_cache import PricingCache

    used = shared.entries.get("train cells", 0)
    if used % CELLS_OF_A_CACHE == 0:
        shared.entries["train prices"] = PricingCache()
    shared.entries["train cells"] = used + 1
    cache = shared.entries["train prices"]
    result = simulate_training(question.source, sensitivities=False, cache=cache).to_dict()
    return result if question.draw is None else _drawn(result, question)


def _drawn(result: dict[str, Any], question: Question) -> dict[str, Any]:
    """The result with a step time drawn from its band, and what follows from it."""
    band, step_s = result["interval"], result["step_time_s"]
    factor = drawn_factor(
        (question.seed, question.draw or 0), "step_time_s", band["low"] / step_s, band["high"] / step_s
    )
    for name in ("step_time_s", "energy_per_token_j", "cost_per_million_tokens"):
        if result.get(name) is not None:
            result[name] *= factor
    for name in ("tokens_per_s", "tokens_per_s_per_device", "model_tflops_per_device", "hardware_tflops_per_device",
                 "mfu", "hfu"):  # fmt: skip
        result[name] /= factor
    result["breakdown"] = {name: value * factor for name, value in result["breakdown"].items()}
    return result


VERBS.add(
    "train",
    Verb(
        id="train",
        section="training",
        answer=answer,
        cell_cpu_s=0.06,
        draws="the step time, from its band; plans of one draw share the part of the error that plans share",
    ),
)
