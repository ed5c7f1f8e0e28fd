"""The open record, where it is at hand: every row is read, most are expressed, none leaks its outcome."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures"))
from measured_rows import damaged, disguised, same

from windtunnel.validation.rows.read_row import read

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = [
    pytest.mark.validation,
    pytest.mark.skipif(not DATA.is_dir(), reason="the open rows are not beside the checkout"),
]


def rows(name: str) -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    return data


@pytest.mark.parametrize("name", ["training", "serving", "collectives", "kernels"])
def test_every_row_is_read(name: str) -> None:
    for data in rows(name):
        case = read(data)
        assert not case.reason.startswith("could not be read"), (case.id, case.reason)
        assert case.row_kind != "unknown"


def test_most_training_rows_are_expressed_and_all_stated_ones() -> None:
    cases = [(data, read(data)) for data in rows("training")]
    expressed = sum(case.scenario is not None for _, case in cases)
    assert expressed >= 0.9 * len(cases)
    missing = [case.id for data, case in cases if data.get("fully_configured") and case.scenario is None]
    assert missing == []
    # MLPerf's results state neither layout nor recomputation: all that their reader adds is named, and is much
    stated = [case for data, case in cases if not data["source"]["repo"].startswith("mlcommons/training_results")]
    many = sum(len(case.assumed) > 4 for case in stated)
    assert many <= 0.01 * len(stated)


def test_every_expressed_row_has_a_target() -> None:
    for data in rows("training"):
        case = read(data)
        assert case.metrics, case.id
        if (data.get("derived") or {}).get("step_time_s"):
            assert case.metrics[0].metric == "step_time"


@pytest.mark.slow
def test_scenarios_do_not_depend_on_identity_or_outcome() -> None:
    for data in rows("training"):
        assert same(read(data), read(disguised(data))), data["id"]


@pytest.mark.slow
def test_shuffled_outcomes_leave_every_scenario_alone() -> None:
    data = rows("training")
    random_ = random.Random(3)
    donors = random_.sample(data, len(data))
    for mine, other in zip(data, donors, strict=True):
        mixed = {**mine, **{k: other.get(k) for k in ("id", "source", "notes", "ambiguous", "confidence")}}
        assert same(read(mine), read(mixed)), mine["id"]


def test_damaged_rows_do_not_raise() -> None:
    random_ = random.Random(11)
    for data in random_.sample(rows("training"), 400):
        case = read(damaged(data, random_))
        assert not case.reason.startswith("could not be read"), (data["id"], case.reason)
