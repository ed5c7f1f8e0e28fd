"""Assumptions as values that a scenario can state, for the button “make explicit”.

Results tell assumptions in words (`4 each`, `32 bit`). A field is offered where its words name a value that the field
takes and that changes nothing; the others are reported and not offered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_SWITCHES = {"on": True, "True": True, "yes": True, "off": False, "False": False, "no": False}
_NO_VALUE = re.compile(
    r"^serving\.(plan|replicas|router)$|^serving\.traffic\.|^run\.failures$|^programs\.|^training\.expert_load$|^jobs\."
)
"""Fields whose words tell of something else than the field's own value: one of many plans, a router's loop, a clipped
draw, rates that are drawn."""
_POOL = re.compile(r"^serving\.pools\[(\d+)\]")


def explicit_values(
    assumed: Sequence[Mapping[str, Any]], scenario: Mapping[str, Any], plan: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Field → the value that states what was assumed.

    Args:
        assumed: `assumed` of a result: field, value, why.
        scenario: fields of the scenario.
        plan: `plan` of a training result, as it was resolved; None elsewhere.
    """
    out: dict[str, Any] = {}
    for one in assumed:
        value = _value(str(one["field"]), one["value"], scenario, plan or {})
        if value is not None:
            out[str(one["field"])] = value
    return out


def _value(field: str, told: Any, scenario: Mapping[str, Any], plan: Mapping[str, Any]) -> Any:
    if _NO_VALUE.search(field) or _pool_is_missing(field, scenario):
        return None
    if field == "cluster.scale_out":
        return _scale_out(scenario)
    if field == "plan.stage_layers":
        return plan.get("stage_layers")
    if not isinstance(told, str):
        return told
    if field in ("training.master_weights", "training.grad_reduce_precision"):
        return _format_of(field, told, scenario.get("training") or {})
    if told in _SWITCHES:
        return _SWITCHES[told]
    if _NUMBER.fullmatch(told):
        return float(told) if "." in told or "e" in told else int(told)
    return told if _NAME.fullmatch(told) else None


def _pool_is_missing(field: str, scenario: Mapping[str, Any]) -> bool:
    """Whether a field belongs to a pool that the scenario does not list: a stated one would replace what is assumed."""
    found = _POOL.match(field)
    pools = (scenario.get("serving") or {}).get("pools")
    return found is not None and not (isinstance(pools, list) and int(found[1]) < len(pools))


def _format_of(field: str, told: str, training: Mapping[str, Any]) -> str | None:
    """A format of as many bits; None for master weights of frameworks that train the weights themselves."""
    from windtunnel.cost.framework_defaults import behaviour

    framework = training.get("framework")
    if field.endswith("master_weights") and framework and not behaviour(str(framework)).master_bytes:
        return None
    if told == "32 bit":
        return "fp32"
    return ("fp16" if training.get("precision") == "fp16" else "bf16") if told == "16 bit" else None


def _scale_out(scenario: Mapping[str, Any]) -> dict[str, Any] | None:
    """The network between nodes as the catalogue's node has it."""
    from windtunnel import catalog
    from windtunnel.errors import BadInput
    from windtunnel.specs.cluster import ClusterRef

    try:
        found = catalog.resolve_cluster(ClusterRef.model_validate(scenario["cluster"]))
    except (BadInput, ValueError, KeyError):
        return None
    return found.scale_out.model_dump(mode="json", exclude_defaults=True)
