"""What a release of a serving engine refuses when it starts: relations of limits, axes, formats, model and device.

A row of `rules` in `stacks/serving/<engine>.yaml` has a `field`, one relation of `RELATIONS` with its operand (a
number, a list, or the name of another fact), the releases that it holds in (`since`, `until`, the last excluded), the
facts it depends on (`when`: fact → values), and its source. A row holds where every fact that it names is known. With
`effect: adjusts` the engine starts and takes another value, which `because` names; with `effect: lifted` it refuses
unless a switch is set that a scenario does not state, and `because` names it; without, it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from windtunnel.data_files import ROOT, read_yaml
from windtunnel.specs.serving import ServingSpec
from windtunnel.stacks.releases import numbers

ENGINES: tuple[str, ...] = get_args(ServingSpec.model_fields["engine"].annotation)
"""Serving engines, as scenarios name them."""

Facts = Mapping[str, Any]
"""Name of a fact (`plan.tp`, `model.num_experts`, `device.generation`) → its value; what is not known is not there."""

RELATIONS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "at_least": (lambda value, other: value >= other, "must be at least"),
    "at_most": (lambda value, other: value <= other, "must be at most"),
    "equals": (lambda value, other: value == other, "must be"),
    "multiple_of": (lambda value, other: value % other == 0, "must be a multiple of"),
    "divides": (lambda value, other: other % value == 0, "must divide"),
    "divides_or_is_multiple_of": (
        lambda value, other: other % value == 0 or value % other == 0,
        "must divide or be a multiple of",
    ),
    "one_of": (lambda value, other: value in other, "must be one of"),
    "none_of": (lambda value, other: value not in other, "must not be"),
}
"""Relation → whether a value has it to its operand, and how it is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRule:
    """One relation that a release holds its settings to."""

    field: str
    relation: str
    operand: Any
    when: Mapping[str, tuple[Any, ...]]
    effect: Literal["refuses", "adjusts", "lifted"]
    because: str
    source: str

    def breaks(self, facts: Facts) -> bool:
        """Whether the facts break the rule; what is not known breaks none."""
        if any(facts.get(name) not in values for name, values in self.when.items()):
            return False
        value, other = facts.get(self.field), self._operand(facts)
        return value is not None and other is not None and not RELATIONS[self.relation][0](value, other)

    def _operand(self, facts: Facts) -> Any:
        return facts.get(self.operand) if isinstance(self.operand, str) else self.operand

    def words(self, facts: Facts) -> str:
        """What is allowed, and who says so."""
        other = self._operand(facts)
        if isinstance(self.operand, str):
            allowed = f"{self.operand} {other}"
        else:
            allowed = ", ".join(map(str, other)) if isinstance(other, list) else str(other)
        where = ", ".join(f"{name} {facts[name]}" for name in self.when)
        because = f": {self.because}" if self.because else ""
        return f"{RELATIONS[self.relation][1]} {allowed}{f' with {where}' if where else ''}{because} ({self.source})"


def serving_file(engine: str) -> dict[str, Any]:
    """An engine's file as plain data; empty where there is none."""
    path = f"stacks/serving/{engine}.yaml"
    return (read_yaml(path) or {}) if (ROOT / path).is_file() else {}


def broken(engine: str, version: tuple[int, ...], facts: Facts) -> Iterator[ServingRule]:
    """Rules of a release that settings break.

    Args:
        engine: as scenarios name it.
        version: numbers of the release; empty means the newest.
        facts: what is set, served and served on.
    """
    return (rule for rule in serving_rules(engine, version) if rule.breaks(facts))


@cache
def serving_rules(engine: str, version: tuple[int, ...] = ()) -> tuple[ServingRule, ...]:
    """Rules of an engine's release."""
    return tuple(_rule(row) for row in serving_file(engine).get("rules", ()) if _holds(row, version))


def _holds(row: Mapping[str, Any], version: tuple[int, ...]) -> bool:
    since, until = (None if row.get(end) is None else numbers(str(row[end])) for end in ("since", "until"))
    if not version:
        return until is None
    return (since is None or since <= version) and (until is None or version < until)


def _rule(row: Mapping[str, Any]) -> ServingRule:
    relation = next(name for name in RELATIONS if name in row)
    return ServingRule(
        field=row["field"],
        relation=relation,
        operand=row[relation],
        when={name: tuple(values) for name, values in row.get("when", {}).items()},
        effect=row.get("effect", "refuses"),
        because=row.get("because", ""),
        source=row["source"],
    )
