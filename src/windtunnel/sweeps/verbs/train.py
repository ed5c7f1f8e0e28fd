"""`train` in a sweep: one training step a cell, with prices of blocks shared between cells."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.sweeps.cells import canonical
from windtunnel.sweeps.draws import normal
from windtunnel.sweeps.verbs import VERBS, Question, Shared, Verb

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.training.uncertainty.comparable_runs import Subject

CELLS_OF_A_CACHE = 400
"""Cells after which shared prices are forgotten, so that memory stays."""


def answer(question: Question, shared: Shared) -> dict[str, Any]:
    """Predict one step. Draws of one scenario are draws from one prediction, which is computed once."""
    if question.draw is None:
        return _predicted(question, shared).to_dict()
    asked = canonical(question.source)
    if shared.entries.get("train drawn", ("",))[0] != asked:
        from windtunnel.training.compare_results import subject_of

        result = _predicted(question, shared)
        shared.entries["train drawn"] = asked, result, subject_of(result)
    _, result, subject = shared.entries["train drawn"]
    return _drawn(result, subject, question)


def _predicted(question: Question, shared: Shared) -> TrainingResult:
    from windtunnel.training.predict import simulate_training
    from windtunnel.training.stage_costs.pricing_cache import PricingCache

    used = shared.entries.get("train cells", 0)
    if used % CELLS_OF_A_CACHE == 0:
        shared.entries["train prices"] = PricingCache()
    shared.entries["train cells"] = used + 1
    return simulate_training(question.source, sensitivities=False, cache=shared.entries["train prices"])


def _drawn(predicted: TrainingResult, subject: Subject | None, question: Question) -> dict[str, Any]:
    """The result with a step time drawn from its band, and what follows from it."""
    from windtunnel.training.uncertainty.plan_errors import drawn_error

    normals = partial(normal, question.seed, question.draw or 0)
    factor = drawn_error(subject, predicted.step_time_s, predicted.interval, normals)
    result = predicted.to_dict()
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
        together=96,
        draws="the step time, from its band; plans of one draw differ as measured pairs of plans do",
    ),
)
