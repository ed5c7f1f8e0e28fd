"""`train`: one optimizer step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Draws, InSweeps, Listener, Question, Shared, with_snippet
from windtunnel.commands.draws import normal
from windtunnel.commands.explanations import of_step
from windtunnel.scenarios.source import Source
from windtunnel.specs.settings import canonical

if TYPE_CHECKING:
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.training.stage_costs.pricing_cache import PricingCache
    from windtunnel.training.uncertainty.comparable_runs import Subject

CELLS_OF_A_CACHE = 400
"""Cells of a sweep after which shared prices are forgotten, so that memory stays."""
SNIPPET = """\
training:
  seq_len: 4096
  global_batch: 64
"""


@with_snippet(SNIPPET)
def run(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    full: bool = True,
    listener: Listener = SILENT,
    trace: bool = False,
    cache: PricingCache | None = None,
    **more: Any,
) -> TrainingResult:
    """Predict one optimizer step, or the mean step of a run whose steps differ.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        full: Also simulate with 10 % more of each resource.
        listener: Is notified of the planner's search and its choice.
        trace: Keep the simulated step for Perfetto and the report.
        cache: Prices that several predictions share; the result is the same with and without.
        more: Further options of `windtunnel.training.predict.simulate_training`.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.commands.open_plan import Planned, planned
    from windtunnel.training import predict

    chosen = tuple(more.pop("chosen_by_planner", ()))
    taken = Planned(source, tuple(overrides), chosen) if chosen else planned(source, overrides, listener)
    return predict.simulate_training(
        taken.source,
        overrides=taken.overrides,
        trace=trace,
        sensitivities=full,
        chosen_by_planner=taken.chosen,
        cache=cache,
        **more,
    )


def _shared_prices(shared: Shared) -> dict[str, Any]:
    from windtunnel.training.stage_costs.pricing_cache import PricingCache

    used = shared.entries.get("train cells", 0)
    if used % CELLS_OF_A_CACHE == 0:
        shared.entries["train prices"] = PricingCache()
    shared.entries["train cells"] = used + 1
    return {"cache": shared.entries["train prices"]}


def _drawn(question: Question, shared: Shared) -> dict[str, Any]:
    """Draws of one scenario are draws from one prediction, which is computed once."""
    asked = canonical(question.source)
    if shared.entries.get("train drawn", ("",))[0] != asked:
        from windtunnel.training.compare_results import subject_of

        result = run(question.source, full=False, **_shared_prices(shared))
        shared.entries["train drawn"] = asked, result, subject_of(result)
    _, result, subject = shared.entries["train drawn"]
    return _with_drawn_time(result, subject, question)


def _with_drawn_time(predicted: TrainingResult, subject: Subject | None, question: Question) -> dict[str, Any]:
    """The result with a step time drawn from its interval, and what follows from it."""
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


COMMANDS.add(
    "train",
    Command(
        id="train",
        needs=(("training",),),
        run=run,
        result="windtunnel.training.results.training_result:TrainingResult",
        view="train",
        figures=(
            "step_time_s", "tokens_per_s_per_device", "mfu", "memory_fits", "peak_memory_reserved_bytes", "bound_by",
            "num_devices", "cost_per_million_tokens", "mean_power_w", "breakdown",
        ),
        main="step_time_s",
        for_report={"trace": True},
        own_section="training",
        snippet=SNIPPET,
        draws=Draws(
            what="the step time, from its interval; plans of one draw differ as measured pairs of plans do",
            result=_drawn,
        ),
        explained_by=of_step,
        sweep=InSweeps(
            cell_cpu_s=0.06,
            together=96,
            objectives=("step_time_s", "peak_memory_reserved_bytes"),
            options=_shared_prices,
        ),
    ),
)  # fmt: skip
