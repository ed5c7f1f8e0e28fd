"""The open record, where it is at hand: every measured plan is in the planner's space, and a sample is not beaten."""

from __future__ import annotations

import random
import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "fixtures"))
from search_candidates import holds

from windtunnel.validation.rows.row_files import load_rows, with_shipped
from windtunnel_lab.planner_vs_published.compare import compare
from windtunnel_lab.planner_vs_published.groups import Group, groups, kind_of, same_kind
from windtunnel_lab.planner_vs_published.space import searches

ROWS = Path(__file__).parents[4] / "shared" / "data" / "training.json"
SAMPLE = 40
pytestmark = pytest.mark.validation


@cache
def found() -> list[Group]:
    """Groups of the open rows, or of those that ship."""
    return groups(with_shipped(load_rows(ROWS) if ROWS.is_file() else []))


@pytest.mark.slow
def test_every_measured_plan_is_in_its_space() -> None:
    missing = []
    for members in same_kind(found()).values():
        for group in members:
            spaces = searches(group, members)
            uneven = [r for r in group.scenarios if r.plan.schedule == "dualpipe" and r.plan.stage_layers]
            # Uneven stages of two copies are no value of the space.
            rows = [r for r in group.scenarios if r not in uneven]
            missing += [r.name for r in rows if not any(holds(search, r) for search in spaces)]
    assert missing == []


@pytest.mark.slow
def test_no_measured_plan_of_a_sample_is_faster_unless_memory_forbids_it() -> None:
    alike = same_kind(found())
    sample = random.Random(4).sample(found(), min(SAMPLE, len(found())))
    outcomes = [compare(group, alike[kind_of(group)]) for group in sample]
    assert {o.verdict for o in outcomes} <= {"same", "faster", "memory"}
    assert all(o.gain >= -1e-9 for o in outcomes if o.best_row.fits)
    assert sum(o.verdict == "memory" for o in outcomes) <= 0.15 * len(outcomes)
