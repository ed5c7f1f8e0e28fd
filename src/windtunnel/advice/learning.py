"""What techniques that change what is learned cost in loss, on a small task that is trained for it (grade: assumed)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from windtunnel.advice.suggestion import Suggestion
from windtunnel.errors import WindtunnelError
from windtunnel.techniques import REGISTRY

_TASK: Mapping[str, Any] = {"task": "markov-lm", "workers": 4, "steps": 600, "batch": 8, "lr": 0.002, "gate": False}
"""Some seconds on one core, once: curves are kept. Differences of one seed are its noise as well."""
_MOST = 3
"""Suggestions that are priced."""


SLOW_BYTES_PER_S = 25e9 / 8
"""Of a node's way out: below, algorithms that exchange rarely are worth a look at what they cost."""


def slowly_joined(cluster: Any) -> bool:
    """Whether nodes are joined by links between sites, not by those of a room."""
    nodes, out = getattr(cluster, "nodes", 1), getattr(cluster, "scale_out", None)
    return nodes > 1 and out is not None and out.nics_per_node * out.nic_bytes_per_s <= SLOW_BYTES_PER_S


def priced_in_loss(suggestions: tuple[Suggestion, ...], cluster: Any) -> tuple[Suggestion, ...]:
    """The suggestions; where nodes are joined by slow links, those that gain by an algorithm with its price in loss.

    Args:
        suggestions: The largest gain first; only the first few are priced, since each is trained.
        cluster: Of the scenario, looked up.
    """
    if not slowly_joined(cluster):
        return suggestions
    out, left = [], _MOST
    for one in suggestions:
        price = _price(one) if left and one.gain > 0 else ""
        left -= bool(price)
        out.append(replace(one, quality=f"{one.quality}; {price}") if price else one)
    return tuple(out)


def _price(one: Suggestion) -> str:
    """The gap to data parallelism on the small task, in words; empty where no algorithm is meant."""
    from windtunnel.learning.simulate import simulate_learning

    for entry in one.scenario.get("techniques", ()):
        name, knobs = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
        technique = REGISTRY.get(name)
        if not technique.algorithm:
            continue
        section = {**_TASK, "algorithms": ["data_parallel"]}
        try:
            found = simulate_learning({"learning": section, "techniques": [{name: dict(knobs or {})}]}).last
        except WindtunnelError:
            return ""
        if found.gap is None or found.id != technique.algorithm:
            return ""
        return f"on a small language task its loss ends {100 * found.gap:+.1f} % from data parallelism's (assumed)"
    return ""
