"""Programs of agents under one orchestrator and from queue to queue, on the same devices."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def rates(values: Values) -> tuple[float, float]:
    """Programs a second under the orchestrator, and from queue to queue."""
    team = {"stages": fixed("stages"), "agents": fixed("agents")}
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        offline=True,
        input_tokens=300,
        output_tokens={"distribution": "lognormal", "mean": values["answer"], "cv": 0.6},
        strategies=[{"orchestrator": team}, {"peer_to_peer": team}],
        tools={
            "orchestrator": {"seconds": values["orchestrator_s"], "distribution": "fixed", "concurrency": 1},
            "queue": {"seconds": fixed("hop_s"), "distribution": "fixed"},
        },
    )
    one, other = reasoned(scenario)
    return one.problems_per_s, other.problems_per_s


def ratio(values: Values) -> float:
    """Queue to queue over orchestrator."""
    one, other = rates(values)
    return other / one


def bound(values: Values) -> float:
    """How near the orchestrator is to its own pace."""
    return rates(values)[0] * float(values["orchestrator_s"] * fixed("stages") * fixed("agents"))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"throughput": ratio, "bound": bound}
