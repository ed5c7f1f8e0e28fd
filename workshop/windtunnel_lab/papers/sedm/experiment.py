"""Programs that read few and many entries of a memory."""

from __future__ import annotations

from windtunnel.programs.result import Point
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def pair(values: Values) -> tuple[Point, Point]:
    """All entries, and admitted ones."""
    own = {"document_tokens": values["entry"]}
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        concurrency=16,
        input_tokens=200,
        output_tokens=200,
        strategies=[{"rag": own | {"documents": fixed(n)}} for n in ("all", "kept")],
        tools={"retrieval": {"seconds": 0.05}},
    )
    every, kept = reasoned(scenario)
    return every, kept


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""

    def latency(values: Values) -> float:
        every, kept = pair(values)
        return every.latency_s["mean"] / kept.latency_s["mean"]

    def tokens(values: Values) -> float:
        every, kept = pair(values)
        return every.prompt_tokens / kept.prompt_tokens

    return {"latency": latency, "tokens": tokens}
