"""What a change does to the plan: fields that differ once all is resolved, and whether it is but another plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windtunnel.techniques.base import HOOKS, Technique

LAYOUT = frozenset(
    {
        "tp",
        "sp",
        "pp",
        "vpp",
        "cp",
        "cp_kind",
        "cp_all_to_all",
        "ep",
        "etp",
        "dp",
        "zero",
        "shard_group",
        "mbs",
        "m",
        "order",
        "stage_layers",
        "recompute.policy",
        "recompute.modules",
        "recompute.num_layers",
        "reshard_after_forward",
        "padded_vocab",
        "schedule",
    }
)
"""Fields that any plan states: a technique that sets these alone is one plan among those that `plan` searches."""
_FOLLOWS = frozenset({"m", "padded_vocab", "stage_layers", "sp", "shard_group", "reshard_after_forward"})
"""Fields that others decide; not worth saying next to those."""
_HOOKS = frozenset({"plan", "decide"})


def flat(plan: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Fields of fields by dots."""
    out: dict[str, Any] = {}
    for key, value in plan.items():
        name = f"{before}{key}"
        out |= flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return out


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Field of a resolved plan → values of both, where they differ."""
    a, b = flat(before), flat(after)
    return {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)}


def only_a_plan(technique: Technique, changed: Mapping[str, Any]) -> bool:
    """Whether a technique did nothing but choose sizes, shards and recomputation that any plan could state.

    A schedule that the technique itself brings is more than that.
    """
    acts = {hook for hook in HOOKS if getattr(technique, hook)}
    own = "schedule" in changed and "schedule" in technique.levels
    return bool(changed) and acts <= _HOOKS and not technique.selects and not own and set(changed) <= LAYOUT


def words(changed: Mapping[str, tuple[Any, Any]]) -> str:
    """Differences on one line, those that follow from others left out."""
    told = {k: v for k, v in changed.items() if k not in _FOLLOWS} or dict(changed)
    return ", ".join(f"{name.removesuffix('.policy')} {_value(a)} → {_value(b)}" for name, (a, b) in told.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (list, tuple)):
        return "-".join(map(str, value)) or "none"
    return f"{value:.4g}" if isinstance(value, float) else "none" if value is None else str(value)
