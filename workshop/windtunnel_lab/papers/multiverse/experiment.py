"""Parallel branches in one engine at several batch sizes, against serial text of the same length."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def speed_up(values: Values, at: int, width: int | None = None) -> float:
    """Serial over parallel latency in one batch size."""
    own = {"width": width or values["width"], "parallel": values["parallel"], "cv": values["cv"]}
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems")[at],
        concurrency=fixed("batch")[at],
        input_tokens=150,
        output_tokens=fixed("answer"),
        strategies=[{"best_of_n": {"n": 1, "selector": "random"}}, {"multiverse": own}],
    )
    serial, parallel = reasoned(scenario)
    return serial.latency_s["mean"] / parallel.latency_s["mean"]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "speed_up": lambda v: speed_up(v, 0),
        "falls_with_batch": lambda v: speed_up(v, 0) / speed_up(v, 2),
        "width_1": lambda v: speed_up(v, 0, width=1),
    }
