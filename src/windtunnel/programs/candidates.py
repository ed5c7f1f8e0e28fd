"""What a scenario compares: every strategy with every combination of listed knobs, on every model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.errors import UNSET, ProblemList, nearest_name
from windtunnel.programs.strategies import STRATEGIES
from windtunnel.programs.strategy import Strategy
from windtunnel.specs.programs import ProgramsSpec, ServedModel
from windtunnel.specs.serving import ServingPlan
from windtunnel.techniques.base import Applied
from windtunnel.techniques.knobs import named, with_defaults

MOST = 2000
"""Candidates of a scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One strategy with its knobs set, on one model."""

    strategy: Strategy
    knobs: dict[str, Any]
    stated: tuple[str, ...]
    """Knobs that the scenario names."""
    model: ServedModel | None
    """None: the scenario's own."""
    plan: ServingPlan | None = None
    """Of one instance; None: as model and scenario say."""
    load: float | None = None
    """Problems at once, or a second; None: as the scenario says."""
    load_words: str = ""
    """The same in words."""

    @property
    def method(self) -> str:
        """The strategy with the knobs that were stated, and the plan: `best_of_n(n=16, selector=majority), tp=2`."""
        inner = ", ".join(f"{name}={_shown(self.knobs[name])}" for name in self.stated)
        name = f"{self.strategy.id}({inner})" if inner else self.strategy.id
        if self.plan is None:
            return name
        axes = self.plan.model_dump(exclude_defaults=True) or {"tp": 1}
        return f"{name}, {' '.join(f'{axis}={value}' for axis, value in axes.items())}"

    @property
    def label(self) -> str:
        """The same with the load, where several are compared."""
        return f"{self.method}, {self.load_words}" if self.load_words else self.method


def _shown(value: Any) -> str:
    """A knob's value; of a list of records how many there are."""
    records = isinstance(value, list) and any(isinstance(one, dict) for one in value)
    return f"{len(value)} of them" if records else str(value)


def candidates(
    spec: ProgramsSpec, chosen: Sequence[Applied], plans: Sequence[ServingPlan | None], problems: ProblemList
) -> list[Candidate]:
    """All candidates of a section `programs`, models outermost; what is wrong goes to `problems`.

    Args:
        spec: the section.
        chosen: techniques of the scenario: strategies that they name and that are not listed come last.
        plans: of one instance, to choose from.
        problems: gets what is wrong.
    """
    found: list[Candidate] = []
    asked = [(field, *named(one)) for field, one in spec.asked]
    listed = {id for _, id, _ in asked}
    for item in chosen:
        if item.technique.strategy and item.technique.strategy not in listed:
            asked.append((f"techniques.{item.technique.id}", item.technique.strategy, _handed_on(item)))
    for field, id, given in asked:
        where = f"programs.{field}"
        if id not in STRATEGIES:
            problems.extend([STRATEGIES.unknown(id, where)])
            continue
        strategy = STRATEGIES.get(id)
        for name in strategy.tools:
            if name not in spec.tools:
                problems.add(f"programs.tools.{name}", UNSET, f"is required by strategy {id}: say its seconds")
        for name, value in given.items():
            if value == [] and not _takes_a_list(strategy, name):
                problems.add(f"{where}.{id}.{name}", value, "must list at least one value")
        for combination in _combinations(strategy, given):
            knobs = with_defaults(strategy.knobs, combination, f"{where}.{id}", problems)
            strategy.check(knobs, problems, f"{where}.{id}")
            for name in strategy.tools_of(knobs):
                if name not in spec.tools:
                    problems.add(f"programs.tools.{name}", UNSET, f"is required by {where}: say its seconds")
            for name in strategy.roles_of(knobs):
                if name not in spec.roles:
                    rule = f"is required by {where}: say its model"
                    problems.add(f"programs.roles.{name}", UNSET, rule, nearest=nearest_name(name, spec.roles))
            found.append(Candidate(strategy=strategy, knobs=knobs, stated=tuple(given), model=None))
    models: tuple[ServedModel | None, ...] = spec.models or (None,)
    served = [(m, plan) for m in models for plan in (plans if m is None or m.plan is None else (None,))]
    loads: tuple[float | None, ...] = spec.loads or (None,)
    count = len(found) * len(served) * len(loads)
    if count > MOST:
        problems.add("programs.strategies", count, f"must stand for at most {MOST:,} candidates; list fewer values")
        return []
    unit = "at once" if spec.concurrency is not None else "a second"
    return [
        replace(c, model=model, plan=plan, load=load, load_words="" if load is None else f"{load:g} {unit}")
        for model, plan in served
        for c in found
        for load in loads
    ]


def _handed_on(item: Applied) -> dict[str, Any]:
    """Knobs of a technique that its strategy has too."""
    if item.technique.strategy not in STRATEGIES:
        return {}
    known = STRATEGIES.get(item.technique.strategy).knobs
    return {name: value for name, value in item.knobs.items() if name in known}


def _combinations(strategy: Strategy, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every choice of one value for each knob; a knob whose own values are lists is taken whole."""
    axes = []
    for name, value in given.items():
        several = isinstance(value, list) and not _takes_a_list(strategy, name)
        axes.append([(name, one) for one in value] if several else [(name, value)])
    return (dict(choice) for choice in itertools.product(*axes))


def _takes_a_list(strategy: Strategy, name: str) -> bool:
    return name in strategy.knobs and isinstance(strategy.knobs[name].default, (list, tuple))
