"""Every field of a plan and of the workload declares what derives from it, and declarations name what exists."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from pydantic import BaseModel

from windtunnel.cost.framework_defaults import Behaviour
from windtunnel.exporters.target import TARGETS, options
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.planner.space.candidates import LAYOUT_AXES
from windtunnel.specs.plan import CarriedSwitches, Offload, Overlap, PlanSpec, Recompute
from windtunnel.specs.switches import switches_of
from windtunnel.specs.workload import TrainingSpec

RECORDS: tuple[type[BaseModel], ...] = (PlanSpec, Overlap, Recompute, Offload, TrainingSpec)
FIELDS = [(record, name) for record in RECORDS for name in record.model_fields]
DECIDED = {f.name for f in fields(ResolvedPlan)}


def ids(value: Any) -> str:
    return value if isinstance(value, str) else value.__name__


@pytest.mark.parametrize(("record", "name"), FIELDS, ids=ids)
def test_every_field_has_one_declaration(record: type[BaseModel], name: str) -> None:
    assert name in switches_of(record), f"{record.__name__}.{name} lacks a Switch (specs/switches.py)"


@pytest.mark.parametrize(("record", "name"), FIELDS, ids=ids)
def test_a_declaration_names_what_exists(record: type[BaseModel], name: str) -> None:
    switch = switches_of(record)[name]
    if switch.framework_default is not None:
        assert switch.framework_default in {f.name for f in fields(Behaviour)}
        assert (switch.resolved_as or name) in DECIDED
    if switch.resolved_as is not None:
        assert switch.resolved_as in DECIDED
    for target, option in switch.exported.options.items():
        assert options(target).kinds[option] == "value"
    assert set(switch.exported.own_code) <= set(TARGETS.list())
    assert not set(switch.exported.own_code) & switch.exported.options.keys()


def test_a_field_of_a_plan_is_carried_or_decided() -> None:
    elsewhere = {"overlap", "group_axis", "batch_shares", "gather_per_block", "embedding_as_layer", "loss_as_layer"}
    assert not (DECIDED - {"switches"}) & CarriedSwitches.model_fields.keys()
    assert PlanSpec.model_fields.keys() - DECIDED - CarriedSwitches.model_fields.keys() == elsewhere


def test_layout_axes_of_a_search_are_those_that_declare_it() -> None:
    declared = {name for name, switch in switches_of(PlanSpec).items() if switch.axis == "layout"}
    assert declared == set(LAYOUT_AXES)
