"""Groups of agents whose messages are shortened, or whose edges are fewer, until a stated share of tokens is saved."""

from __future__ import annotations

from windtunnel.programs.result import Point
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def team(values: Values, **given: float) -> Point:
    """All agents, with all edges and whole messages where nothing else is given."""
    knobs = {"groups": fixed("groups"), "members": values["members"], "role_tokens": fixed("role"), **given}
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        concurrency=fixed("concurrency"),
        input_tokens=fixed("question"),
        output_tokens={"distribution": "lognormal", "mean": values["answer"], "cv": 0.6},
        strategies=[{"agent_groups": knobs}],
    )
    return reasoned(scenario)[0]


def tokens(point: Point) -> float:
    """Read and written."""
    return point.prompt_tokens + point.tokens


def saving(values: Values, knob: str) -> Point:
    """The team at the share of messages or edges that saves the stated tokens: tokens are linear in either."""
    whole, none = tokens(team(values)), tokens(team(values, **{knob: 0.0}))
    share = 1.0 - fixed("saved") * whole / (whole - none)
    return team(values, **{knob: share})


def saved(values: Values, knob: str, of_tokens: bool = False) -> float:
    """Percent of latency or tokens."""
    before, after = team(values), saving(values, knob)
    if of_tokens:
        return 100 * (1 - tokens(after) / tokens(before))
    return 100 * (1 - after.latency_s["mean"] / before.latency_s["mean"])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "tokens": lambda v: saved(v, "message_share", of_tokens=True),
        "latency": lambda v: saved(v, "message_share"),
        "edges": lambda v: saved(v, "links") - saved(v, "message_share"),
    }
