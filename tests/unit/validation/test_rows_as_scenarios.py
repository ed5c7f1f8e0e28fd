"""A measured row is a scenario that a user could have written: its YAML gives the same prediction, digit by digit."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from windtunnel.commands import train
from windtunnel.scenarios.load import dump_scenario, load_scenario
from windtunnel.validation.predict.validate import simulate_row
from windtunnel.validation.rows.read_row import RowCase, read
from windtunnel.validation.rows.row_files import shipped_rows

ROWS, QUICK = 30, 4


def cases() -> list[RowCase]:
    """Rows of training, in turn from every family, so that software, devices and formats differ."""
    by_family: dict[str, list[RowCase]] = defaultdict(list)
    for row in shipped_rows():
        case = read(row) if "parallel" in row else None
        if case is not None and case.scenario is not None and case.scenario.training is not None:
            by_family[case.family].append(case)
    turns = max(map(len, by_family.values()))
    in_turn = [found[turn] for turn in range(turns) for found in by_family.values() if turn < len(found)]
    return in_turn[:ROWS]


CASES = cases()


def test_rows_are_of_many_kinds_of_software_and_devices() -> None:
    assert len(CASES) == ROWS
    software = {case.scenario.training.framework for case in CASES if case.scenario and case.scenario.training}
    assert len(software) >= 8 and len({case.device for case in CASES}) >= 6


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.id, marks=[pytest.mark.slow] if at >= QUICK else []) for at, case in enumerate(CASES)],
)
def test_the_yaml_of_a_row_is_predicted_alike(case: RowCase, tmp_path: Path) -> None:
    assert case.scenario is not None
    path = tmp_path / "row.yaml"
    path.write_text(dump_scenario(case.scenario), encoding="utf-8")
    written, of_row = train.run(path, full=False), simulate_row(case.scenario)
    assert written.step_time_s == of_row.step_time_s
    assert written.peak_memory_reserved_bytes == of_row.peak_memory_reserved_bytes
    assert written.breakdown == of_row.breakdown


def test_a_row_states_what_it_says_and_leaves_the_rest_to_its_software() -> None:
    """Switches of recipes that a table does not list stay open in the scenario: the framework's release fills them."""
    open_rows = [c for c in CASES if c.scenario and "recompute" in c.assumed_fields]
    assert open_rows
    for case in open_rows:
        assert case.scenario is not None
        again = load_scenario(dump_scenario_fields(case))
        assert again.plan.model_fields_set == case.scenario.plan.model_fields_set


def dump_scenario_fields(case: RowCase) -> dict[str, object]:
    assert case.scenario is not None
    return case.scenario.model_dump(mode="json", exclude_unset=True)
