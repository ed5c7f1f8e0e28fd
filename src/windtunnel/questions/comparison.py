"""Questions that compare: one reading for each side."""

from __future__ import annotations

from typing import Any, Final

from windtunnel.errors import BadInput, Problem
from windtunnel.questions.reading import Reading

_CLUSTER: Final = ("count", "othercount", "device", "single", "devicememory", "nodes")
"""Fields of one side's devices."""
_SETTINGS: Final = ("format", "framework", "engine", "model", "tp", "pp", "zero")
"""Fields of which two values may be compared on the same devices."""


def sides(reading: Reading) -> list[Reading]:
    """Readings of `64 h100 or 128 a100`, of `128 vs 256 h200` and of `vllm vs sglang`, one a side.

    Empty where a question compares otherwise: unlike devices in equal numbers are a choice of one search.

    Raises:
        BadInput: a number of replicas that may be one side's alone.
    """
    if "versus" not in reading and "compare" not in reading:
        return []
    settings = {name: values for name in _SETTINGS if len(values := reading.all(name)) > 1}
    clusters = _clusters(reading)
    number = max((len(values) for values in [clusters, *settings.values()]), default=0)
    if number < 2 or any(len(values) != number for values in settings.values()) or 1 < len(clusters) != number:
        return []
    if "tp" in settings and "replicas" in reading:
        rule = "of which side? ask for the two one after the other"
        raise BadInput(Problem("", rule, reading.text("replicas")))
    rest = reading.without("versus", "compare", *settings, *(_CLUSTER if clusters else ()))
    if "best" in reading and "best" not in rest and reading.get("best") != "time":
        rest = rest.having(best=reading.get("best"))  # the words that compare say by what: `cheaper`
    out = []
    for at in range(number):
        own: dict[str, Any] = {name: values[at] for name, values in settings.items()}
        out.append(rest.having(**own, **(clusters[at] if clusters else {})))
    return out


def labels(parts: list[Reading]) -> list[str]:
    """What each side differs in, in words; the empty text where it is its devices alone."""
    differ = [name for name in _SETTINGS if len({str(part.get(name)) for part in parts}) > 1]
    return [" ".join(_label(name, part.get(name)) for name in differ) for part in parts]


def _label(name: str, value: Any) -> str:
    text = str(int(value)) if isinstance(value, float) else str(value).rpartition("/")[2]
    return f"{name} {text}" if name in ("tp", "pp", "zero") else text


def _clusters(reading: Reading) -> list[dict[str, Any]]:
    """Devices of each side, where their numbers differ; else nothing."""
    found = []
    for phrase in reading.phrases:
        if "device" in phrase.sets and ("count" in phrase.sets or "nodes" in phrase.sets):
            found.append({name: value for name, value in phrase.sets.items() if name in _CLUSTER})
    if "othercount" in reading:
        (pair,) = found
        other = pair.pop("othercount")
        found = [pair, pair | {"count": other}]
    sizes = {(side.get("count"), side.get("nodes")) for side in found}
    return found if len(sizes) > 1 else []
