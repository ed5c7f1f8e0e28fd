"""Measured rows that differ in their plan alone: what a planner may choose between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.validation.rows.identity import work_key
from windtunnel.validation.rows.read_row import RowCase, read


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one model, cluster, sequence length, batch, precision, software and set of techniques."""

    key: str
    cases: tuple[RowCase, ...]

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """What each row runs."""
        return tuple(c.scenario for c in self.cases if c.scenario is not None)

    @property
    def model(self) -> ModelSpec:
        """What all of them train."""
        model = self.scenarios[0].model
        assert isinstance(model, ModelSpec)
        return model

    @property
    def training(self) -> TrainingSpec:
        """How all of them train it."""
        training = self.scenarios[0].training
        assert training is not None
        return training

    @property
    def families(self) -> tuple[str, ...]:
        """Where the rows come from."""
        return tuple(sorted({c.family for c in self.cases}))


def groups(rows: Iterable[dict[str, Any]], families: Iterable[str] = ()) -> list[Group]:
    """Every group of training rows that ran, in the order of first appearance.

    A row that reports that memory did not suffice is no plan that anyone trained with.
    """
    wanted = set(families)
    found: dict[str, list[RowCase]] = {}
    for row in rows:
        case = read(row)
        if case.scenario is None or case.scenario.training is None or (wanted and case.family not in wanted):
            continue
        if any(t.metric == "oom" and t.measured for t in case.metrics):
            continue
        found.setdefault(work_key(case.scenario), []).append(case)
    return [Group(key, tuple(cases)) for key, cases in found.items()]


def same_kind(members: Iterable[Group]) -> dict[str, list[Group]]:
    """Groups by the model that they train and the software that they train it with, see `kind_of`."""
    found: dict[str, list[Group]] = {}
    for group in members:
        found.setdefault(kind_of(group), []).append(group)
    return found


def kind_of(group: Group) -> str:
    """Model, by its dimensions, and software of a group."""
    return f"{group.training.framework} {group.model.model_dump_json(exclude={'name'}, exclude_defaults=True)}"
