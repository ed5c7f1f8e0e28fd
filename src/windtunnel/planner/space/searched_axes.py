"""Which axes a search varied, with which values, and why others stood still: what the word proof covers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windtunnel.planner.case import Case
from windtunnel.planner.space.candidates import LAYOUT_AXES, OFFLOADS, OVERLAPS, Candidates, Policy
from windtunnel.specs.search import SERVING_AXES, Space
from windtunnel.stacks.rules import RULED, Runnable

_OF_A_POLICY = (
    "schedule",
    "recompute",
    "zero",
    "shard_group",
    "sp",
    "cp_kind",
    "cp_all_to_all",
    "order",
    "stage_layers",
    "reshard_after_forward",
)
_OF_THE_FRAMEWORK = {"moe_dispatcher": "dispatcher", "cuda_graphs": "cuda_graphs", "fused_experts": "fused_experts"}
"""Field of `training` that no axis varies → entry of a framework's rules, and of its defaults where it has one."""
_USUAL = ("1f1b", "interleaved_1f1b", "interleaved_1f1b_steady")
"""Schedules that frameworks run by themselves, with one chunk a stage and with several."""
_FIXED = ("precision", "device", "nodes", "spares", "group_axis")


def searched(spaces: Sequence[tuple[Case, Candidates]]) -> dict[str, list[Any]]:
    """Axis → values that candidates have, of axes with more than one.

    Args:
        spaces: every cluster and precision of a search with its candidates.
    """
    found: dict[str, dict[Any, None]] = {}
    for case, x in spaces:
        rows, columns = np.flatnonzero(x.legal.any(axis=1)), np.flatnonzero(x.legal.any(axis=0))
        for name in (*LAYOUT_AXES, "dp"):
            values = np.unique(getattr(x, name)[rows]).tolist()
            found.setdefault(name, {}).update(dict.fromkeys(values))
        for policy in (x.policies[j] for j in columns.tolist()):
            for name, value in _values(policy).items():
                found.setdefault(name, {})[_plain(value)] = None
        found.setdefault("precision", {})[case.training.precision] = None
        found.setdefault("device", {})[case.cluster.device.id] = None
        found.setdefault("nodes", {})[case.cluster.nodes] = None
    return {name: sorted(values, key=_order) for name, values in found.items() if len(values) > 1}


def not_searched(spaces: Sequence[tuple[Case, Candidates]], varied: dict[str, list[Any]]) -> dict[str, str]:
    """Axis of training plans that stood still → its value and why, and what else the framework's release can run.

    Args:
        spaces: every cluster and precision of a search with its candidates.
        varied: what `searched` found.
    """
    case, x = spaces[0]
    can, plan = case.can, x.base
    policy = next((x.policies[j] for j in np.flatnonzero(x.legal.any(axis=0)).tolist()), x.policies[0])
    out: dict[str, str] = {}
    fixed = _values(policy)
    rows = np.flatnonzero(x.legal.any(axis=1))
    for name in (n for n in Space.model_fields if n not in (*SERVING_AXES, *_FIXED)):
        if name in varied:
            if (others := _others(name, varied[name], can)) is not None:
                out[name] = others
            continue
        stated = name.split("_", maxsplit=1)[0] in plan.model_fields_set or name in plan.model_fields_set
        value = fixed[name] if name in fixed else int(getattr(x, name)[rows[0]])
        why = "as the plan states it" if stated else f"as {can.name} does by itself" if value is None else "the default"
        out[name] = _line(name, value, why, can, f"search.space.{name}")
    for name, entry in _OF_THE_FRAMEWORK.items():
        if not case.model.num_experts and name != "cuda_graphs":
            continue
        given = getattr(case.training, name)
        value = given if given is not None else getattr(case.behaviour, entry, None)
        why = "as the scenario states it" if given is not None else f"as {can.name} does by itself"
        out[name] = _line(entry, value, why, can, f"training.{name}")
    return out


def _line(entry: str, value: Any, why: str, can: Runnable, field: str) -> str:
    own = _USUAL if entry == "schedule" and value is None else (value,)
    text = why if value is None else f"{_word(value)}: {why}"
    rule = can.rules.get(entry) if entry in RULED else None
    others = [_word(other) for other in (rule.values if rule is not None else ()) if other not in own]
    return text + (f"; {can.name} also runs {', '.join(others)}: {field}" if others else "")


def _others(entry: str, values: Sequence[Any], can: Runnable) -> str | None:
    """What the release can run of a varied axis and the search did not try; None where that is nothing."""
    if entry not in can.rules:
        return None
    left = [_word(value) for value in can.rules[entry].values if value not in values]
    return f"{', '.join(left)}: search.space.{entry} lists what is tried" if left else None


def _values(policy: Policy) -> dict[str, Any]:
    """Axis → the policy's value."""
    out = {name: getattr(policy, name) for name in _OF_A_POLICY}
    out["recompute"] = _recompute(policy)
    out |= {f"offload_{name}": getattr(policy.offload, name) for name in OFFLOADS}
    return out | {f"overlap_{name}": getattr(policy.overlap, name) for name in OVERLAPS}


def _recompute(policy: Policy) -> str:
    given = policy.recompute
    words = f"modules {' '.join(given.modules)}" if given.policy == "modules" else given.policy
    layers = "" if given.num_layers is None else f":{given.num_layers}"
    return f"{'balanced:' if policy.balanced_recompute else ''}{words}{layers}"


def _plain(value: Any) -> Any:
    """A value as JSON has it; what is left to the framework is named so."""
    return "framework" if value is None else "-".join(map(str, value)) if isinstance(value, tuple) else value


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(_plain(value))


def _order(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return not number, float(value) if number else 0.0, str(value)
