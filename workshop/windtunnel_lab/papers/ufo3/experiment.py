"""Tasks of a graph one after the other and as soon as they are ready."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def scenario(cv: float) -> Values:
    """The graph, and the same tasks one after the other."""
    tokens: Any = {"distribution": "lognormal", "mean": fixed("mean"), "cv": cv} if cv else fixed("mean")
    ready: list[Values] = []
    serial: list[Values] = []
    before: list[str] = []
    for k, width in enumerate(fixed("levels")):
        level = [f"n{k}_{i}" for i in range(width)]
        for name in level:
            node = {"id": name, "context": "fresh", "output_tokens": tokens}
            ready.append(node | {"after": before})
            serial.append(node | {"after": [serial[-1]["id"]] if serial else []})
        before = level
    return on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        concurrency=1,
        input_tokens=200,
        strategies=[{"graph": {"nodes": ready}}, {"graph": {"nodes": serial}}],
    )


def saved(cv: float) -> float:
    """Percent of latency."""
    ready, serial = reasoned(scenario(cv))
    return 100 * (1 - ready.latency_s["mean"] / serial.latency_s["mean"])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"latency": lambda v: saved(v["cv"]), "bound": lambda _: saved(0.0)}
