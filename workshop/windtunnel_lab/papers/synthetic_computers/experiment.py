"""Runs of thousands of turns on one server: how long they take, and how much of their prompts is cached."""

from __future__ import annotations

from windtunnel.programs.result import Point
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.programs import on_one_node, reasoned
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def runs(values: Values, count: int, turns: int, window: int) -> Point:
    """So many runs side by side."""
    knobs = {
        "turns": turns,
        "first_tokens": fixed("first"),
        "result_tokens": float(values["result"]),
        "output_tokens": float(values["output"]),
        "window": window,
        "summary_tokens": fixed("summary"),
    }
    scenario = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices", "tp")},
        problems=count,
        concurrency=count,
        input_tokens=200,
        strategies=[{"long_horizon": knobs}],
        tools={"files": {"seconds": values["tool_s"]}},
    )
    return reasoned(scenario)[0]


def whole(values: Values) -> Point:
    """All turns of the runs of a server."""
    return runs(values, fixed("runs"), fixed("turns"), fixed("window"))


def hit(point: Point) -> float:
    """Percent of prompt tokens found in the cache."""
    return 100 * point.cached_tokens / point.prompt_tokens


def crowded(values: Values) -> float:
    """Points of the hit rate that many runs side by side cost."""
    few, many = (runs(values, fixed(n), fixed("few_turns"), fixed("window")) for n in ("runs", "crowd"))
    return hit(many) - hit(few)


def summed_up(values: Values) -> float:
    """Prompt tokens with half of the window over those with all of it."""
    turns, window = 2 * fixed("few_turns"), fixed("window")
    half, all_of_it = (runs(values, 1, turns, own).prompt_tokens for own in (window // 2, window))
    return half / all_of_it


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "hours": lambda v: whole(v).latency_s["mean"] / 3600,
        "prefix_hit": lambda v: hit(whole(v)),
        "crowd": crowded,
        "window": summed_up,
    }
