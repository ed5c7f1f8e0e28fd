"""A voice agent on device classes of several prices: the least rent that keeps its deadline."""

from __future__ import annotations

import json
import math
from functools import lru_cache

from windtunnel.errors import Infeasible
from windtunnel_lab.models.programs.placement import Placement, ToolPlace, least_cost
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
CLASSES = ("older", "oldest", "accelerator", "latest")
"""Groups of the cluster, in their order."""


def scenario(values: Values) -> Values:
    """The agent's graph, and a node of every class."""
    groups = [
        {
            "device": fixed(name)["device"],
            "nodes": 1,
            "devices_per_node": fixed("most"),
            "price_per_device_hour": fixed(name)["price"],
        }
        for name in CLASSES
    ]
    nodes = [
        {"id": "heard", "output_tokens": 1},
        {"id": "speech", "kind": "tool", "tool": "speech_to_text", "after": ["heard"], "result_tokens": 0},
        {"id": "plan", "after": ["speech"], "output_tokens": 60},
        {"id": "search", "kind": "tool", "tool": "index", "after": ["plan"], "result_tokens": values["found"]},
        {"id": "answer", "after": ["search"], "output_tokens": values["answer"]},
        {"id": "spoken", "kind": "tool", "tool": "text_to_speech", "after": ["answer"], "result_tokens": 0},
    ]
    return {
        "model": fixed("model"),
        "cluster": {"groups": groups, "between": fixed("between")},
        "serving": {"engine": "vllm", "precision": {"weights": fixed("weights")}},
        "programs": {
            "strategies": [{"graph": {"nodes": nodes}}],
            "problems": fixed("problems"),
            "rate_per_s": values["rate"],
            "deadline_s": values["deadline"],
            "input_tokens": 200,
            "system_tokens": 500,
            "tools": {name: {"seconds": one["cpu_s"], "distribution": "fixed"} for name, one in fixed("tools").items()},
        },
        "population": {"beta": {"a": 1.0, "b": 1.0}},
    }


def places() -> dict[str, tuple[ToolPlace, ...]]:
    """A core or an accelerator for each tool."""
    price = fixed("slot_price")
    return {
        name: tuple(
            ToolPlace(name=kind, seconds=one[f"{kind}_s"], usd_per_hour=price[kind]) for kind in ("cpu", "accelerator")
        )
        for name, one in fixed("tools").items()
    }


@lru_cache(maxsize=128)
def _placed(text: str, classes: tuple[str, ...], split: bool) -> Placement:
    groups = [CLASSES.index(name) for name in classes]
    forms = ((("prefill", groups[0]), ("decode", groups[-1])),) if split else None
    return least_cost(scenario(json.loads(text)), places(), share=fixed("share"), groups=groups, forms=forms)


def placed(values: Values, *classes: str, split: bool = False) -> Placement:
    """The cheapest placement on some classes of devices; `split`: prompts on the first, answers on the last."""
    return _placed(json.dumps(values, sort_keys=True), classes, split)


def rent(values: Values, *classes: str, split: bool = False) -> float:
    """USD an hour; infinite where nothing keeps the deadline."""
    try:
        return placed(values, *classes, split=split).usd_per_hour
    except Infeasible:
        return math.inf


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "tco": lambda v: rent(v, "older", "accelerator") / rent(v, "latest"),
        "order": lambda v: rent(v, "older", "accelerator") / rent(v, "older"),
        "oldest": lambda v: rent(v, "oldest", "accelerator") / rent(v, "latest"),
        "split": lambda v: rent(v, "older", "accelerator", split=True) / rent(v, "latest", split=True),
        "planner": lambda v: rent(v, *CLASSES) / min(rent(v, name) for name in CLASSES),
    }
