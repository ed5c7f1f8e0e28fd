"""Parallel teams with a memory at several admissions, and without one."""

from __future__ import annotations

from windtunnel.programs.result import Point
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def teams(values: Values) -> dict[float, Point]:
    """By share of useless steps that are admitted."""
    knobs = {
        "teams": fixed("teams"),
        "steps": fixed("steps"),
        "overlap": float(values["overlap"]),
        "separation": float(values["separation"]),
        "misread": float(values["misread"]),
        "output_tokens": fixed("output"),
        "result_tokens": fixed("result"),
        "entry_tokens": fixed("entry"),
        "key_tokens": fixed("key"),
        "query_tokens": fixed("query"),
        "admission": fixed("grid"),
    }
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices", "tp")},
        problems=fixed("problems"),
        concurrency=fixed("concurrency"),
        input_tokens=300,
        output_tokens=fixed("output"),
        strategies=[{"shared_memory": knobs}],
        verifier={"model": fixed("controller"), "input_tokens": 100, "output_tokens": 1},
        tools={"environment": {"seconds": values["tool_s"]}},
    )
    return dict(zip(fixed("grid"), reasoned(scenario), strict=True))


def seconds(point: Point) -> float:
    """Of a problem."""
    return point.latency_s["mean"]


def inside(points: dict[float, Point]) -> Point:
    """The fastest where something but not everything is admitted."""
    return min((p for share, p in points.items() if 0.0 < share < 1.0), key=seconds)


def run_time(values: Values) -> float:
    """With a memory over without."""
    found = teams(values)
    return min(seconds(p) for share, p in found.items() if share > 0.0) / seconds(found[0.0])


def optimum(values: Values) -> float:
    """Inside the grid over the better of its ends."""
    found = teams(values)
    return seconds(inside(found)) / min(seconds(found[0.0]), seconds(found[1.0]))


def context(values: Values) -> float:
    """Prompt tokens of everything over the best."""
    found = teams(values)
    return found[1.0].prompt_tokens / inside(found).prompt_tokens


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "run_time": run_time,
        "optimum": optimum,
        "context": context,
        "nothing_shared": lambda v: run_time(v | {"overlap": 0.0}),
    }
