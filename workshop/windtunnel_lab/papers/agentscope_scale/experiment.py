"""Independent agents as actors, in one loop that waits for each, and at an environment that serves one at a time."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def makespan(agents: int, cv: float, *, serial: bool = False, places: int = 1) -> float:
    """Seconds until the last agent is done."""
    tokens: Any = {"distribution": "lognormal", "mean": fixed("answer"), "cv": cv} if cv else fixed("answer")
    nodes: list[Values] = []
    for k in range(agents):
        after = [f"v{k - 1}"] if serial and k else []
        nodes.append({"id": f"a{k}", "context": "fresh", "after": after, "output_tokens": tokens})
        nodes.append({"id": f"v{k}", "kind": "tool", "tool": "environment", "after": [f"a{k}"]})
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=4,
        concurrency=1,
        input_tokens=200,
        strategies=[{"graph": {"nodes": nodes}}],
        tools={"environment": {"seconds": fixed("visit_s"), "distribution": "fixed", "concurrency": places}},
    )
    return reasoned(scenario)[0].latency_s["mean"]


def gain(agents: int, values: Values) -> float:
    """Serial over actors."""
    return makespan(agents, values["answer_cv"], serial=True) / makespan(agents, values["answer_cv"])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    few, many = fixed("agents")
    return {
        "actors": lambda v: gain(many, v),
        "scale": lambda v: gain(many, v) / gain(few, v),
        "contention": lambda v: makespan(many, v["answer_cv"]) / makespan(many, v["answer_cv"], places=many),
    }
