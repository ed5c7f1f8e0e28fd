"""Step 5, validate and explain: fields become a record, or every problem at once with its file and line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from windtunnel.errors import BadInput, Problem
from windtunnel.scenarios.explain import explain
from windtunnel.scenarios.fields import Fields
from windtunnel.scenarios.large_numbers import written_out
from windtunnel.specs.scenario import Scenario

SpecT = TypeVar("SpecT", bound=BaseModel)


def validated_scenario(fields: Fields) -> Scenario:
    """The scenario that fields stand for.

    Raises:
        BadInput: everything wrong with it, what earlier steps found first.
    """
    missing = tuple(_missing(fields))
    return validated(Scenario, fields, missing=missing)


def validated(spec: type[SpecT], fields: Fields, prefix: str = "", missing: tuple[Problem, ...] = ()) -> SpecT:
    """The record that fields stand for.

    Args:
        spec: Type of the record.
        fields: What is read, with the problems of earlier steps.
        prefix: Path of the record in a scenario, which problems then begin with.
        missing: Problems of fields that have to stand together.

    Raises:
        BadInput: everything wrong with it.
    """
    problems = [*fields.problems, *missing]
    try:
        record = spec.model_validate(fields.data)
    except ValidationError as error:
        if written_out(spec, fields.data, error):
            return validated(spec, fields, prefix, missing)
        problems += explain(spec, fields.data, error)
    if problems:
        raise BadInput(fields.lines.located(problem.under(prefix)) for problem in problems)
    return record


def _missing(fields: Fields) -> Iterator[Problem]:
    """Sections without which nothing can be simulated: jobs and learning bring what they need themselves."""
    data = fields.data
    if not data.keys() & {"model", "jobs", "learning"}:
        yield Problem("model", "is required")
    jobs = data.get("jobs")
    jobs_bring_nodes = isinstance(jobs, dict) and jobs.get("nodes")
    if not data.keys() & {"cluster", "learning"} and not jobs_bring_nodes:
        yield Problem("cluster", "is required")
