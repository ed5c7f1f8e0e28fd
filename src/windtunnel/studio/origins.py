"""What a shown number is made of: its words, the numbers that it is computed from, and the chain behind it.

The chain itself is that of `windtunnel explain --json`. Here is which part of it a figure rests on, and the arithmetic
between the two, which tests repeat on real results.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from windtunnel.scenarios.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What figures of one kind are made of: an entry of `origins.yaml`."""

    pattern: str
    """Regular expression of the whole path in the result; its first group is put for `{}` in `words` and `inputs`."""
    words: str
    inputs: tuple[str, ...] = ()
    """Paths of the figures that it is computed from."""
    part: str = ""
    """What of the chain stands behind it: `step`, `class` (the group), `memory`, `prompts`, `decode`, `capacity`, `run`
    or `price`."""


@cache
def origins(command: str) -> tuple[Origin, ...]:
    """Figures of a command's result; of `reason` those of one candidate by their names in it, and of the answers."""
    import yaml

    known = yaml.safe_load(files("windtunnel.studio").joinpath("origins.yaml").read_text(encoding="utf-8"))
    return tuple(Origin(**{**one, "inputs": tuple(one.get("inputs", ()))}) for one in known.get(command, ()))


_ONE_OF = {"serve_curve": r"^(points\.\d+|knee|best_goodput)\.", "reason": r"^(candidates\.\d+|front\.\d+|best)\."}
"""Command → where a result holds one of several answers of the same fields."""
_LOADS = {"rate": "rate_per_s", "concurrency": "concurrency", "time_scale": "time_scale"}


def origin_of(verb: str, path: str) -> dict[str, Any]:
    """What a figure is made of: path, words, inputs and part; words are empty where the command has no chain for it.

    Args:
        verb: the command: train, serve, run …; figures of `serve_curve` are those of `serve` at their load.
        path: of the figure in the result of the command.
    """
    known = "serve" if verb == "serve_curve" else verb
    own = re.sub(_ONE_OF[verb], "", path) if verb in _ONE_OF else path
    for one in origins(known):
        if found := re.fullmatch(one.pattern, own):
            group = found.group(1).replace("_", " ") if found.groups() else ""
            raw = found.group(1) if found.groups() else ""
            inputs = [name.replace("{}", raw) for name in one.inputs]
            return {
                "path": own,
                "words": one.words.replace("{}", group),
                "inputs": inputs,
                "part": one.part,
                "group": raw,
            }
    return {"path": own, "words": "", "inputs": [], "part": "", "group": ""}


def at_load(scenario: dict[str, Any], axis: str, load: float) -> dict[str, Any]:
    """The scenario with the load of one point of a load curve.

    Args:
        scenario: fields.
        axis: rate, concurrency or time_scale.
        load: in the units of the axis.
    """
    serving = scenario.get("serving")
    if not isinstance(serving, dict) or axis not in _LOADS:
        return scenario
    traffic = dict(serving.get("traffic") or {})
    for name in ("rate", "rate_per_s", "concurrency", "time_scale", "offline"):
        traffic.pop(name, None)
    traffic[_LOADS[axis]] = int(load) if axis == "concurrency" else load
    return {**scenario, "serving": {**serving, "traffic": traffic}}


def data_sheet(source: Source) -> tuple[dict[str, Any], ...]:
    """Values of the data sheet of the scenario's (first) device, each with its source; empty where it has none.

    Returns:
        Rows of name, value, unit, source.
    """
    from windtunnel import catalog
    from windtunnel.errors import WindtunnelError
    from windtunnel.scenarios.load import load

    try:
        scenario, _, _ = load(source)
        device = catalog.resolve_cluster(scenario.cluster).device
    except (WindtunnelError, AttributeError):
        return ()
    return tuple(
        {"name": words, "value": getattr(device, field), "unit": unit, "source": device.sources.get(field, "")}
        for field, words, unit in _SHEET
        if getattr(device, field, None)
    )


_SHEET = (
    ("memory_bytes", "device memory", "B"),
    ("memory_bytes_per_s", "device memory bandwidth", "B/s"),
    ("tdp_w", "board power", "W"),
    ("idle_w", "idle power", "W"),
    ("price_per_hour", "price an hour", "USD"),
)
