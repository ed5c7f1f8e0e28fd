"""Measured plans against the planner: who belongs together, what is searched, what comes out."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from search_candidates import holds

from windtunnel.validation.rows.row_files import SHIPPED, load_rows
from windtunnel_lab.planner_vs_published.__main__ import done_before, main
from windtunnel_lab.planner_vs_published.caveats import remarks
from windtunnel_lab.planner_vs_published.compare import Outcome, compare, identity, measured_s, outcome_of
from windtunnel_lab.planner_vs_published.groups import Group, groups, same_kind
from windtunnel_lab.planner_vs_published.page import page, reason
from windtunnel_lab.planner_vs_published.space import searches


def shipped(name: str) -> list[dict[str, Any]]:
    return load_rows(SHIPPED / f"{name}.json")


@cache
def smallest() -> tuple[Group, Outcome]:
    """22 billion parameters on one node: full recomputation, and selective with sequence parallelism."""
    group = groups(shipped("korthikanti"))[0]
    return group, compare(group)


def test_rows_that_differ_in_their_plan_are_one_group() -> None:
    found = groups(shipped("korthikanti"))
    assert [len(g.cases) for g in found] == [2, 2, 2, 2]
    rows = shipped("korthikanti")[:2]
    assert len(groups([rows[0], {**rows[1], "global_batch": 8}])) == 2
    assert len(groups([rows[0], {**rows[1], "seq_len": 4096}])) == 2
    assert len(groups([rows[0], {**rows[1], "precision": "bf16"}])) == 2


def test_a_run_out_of_memory_is_no_tuned_plan() -> None:
    ran, other = shipped("korthikanti")[:2]
    failed = {**other, "metric": "oom", "value": True, "unit": "bool", "derived": {}}
    (group,) = groups([ran, failed])
    assert [c.id for c in group.cases] == [ran["id"]]


@pytest.mark.parametrize("name", sorted(p.stem for p in SHIPPED.glob("*.json")))
def test_every_row_plan_is_in_the_space(name: str) -> None:
    found = groups(shipped(name))
    alike = same_kind(found)
    for group in found:
        others = next(members for members in alike.values() if group in members)
        spaces = searches(group, others)
        for row in group.scenarios:
            if row.plan.schedule == "dualpipe" and row.plan.stage_layers:
                continue  # uneven stages that two copies share are no value of the space
            assert any(holds(search, row) for search in spaces), (row.name, row.plan)


def test_the_planner_is_at_least_as_fast_and_says_why() -> None:
    _, found = smallest()
    assert found.verdict == "faster" and found.rows == 2 and found.families == ("korthikanti",)
    assert found.plan_s < found.best_row.simulated_s
    assert found.gain == pytest.approx(1 - found.plan_s / found.best_row.simulated_s)
    assert sum(share for _, share in found.parts) == pytest.approx(found.gain, abs=1e-6)
    assert found.best_row.measured_s == pytest.approx(1.1, rel=1e-6)
    assert found.measured_best == found.best_row and "selective" in found.best_row.plan
    assert 0 < found.simulated <= found.candidates
    largest = found.parts[0][0]
    assert largest in reason(found)


def test_a_plan_that_does_not_fit_as_simulated_is_a_miss_of_memory() -> None:
    (row,) = [r for r in shipped("korthikanti") if r["id"] == "korthikanti-22B-full"]
    case = groups([row])[0].cases[0]
    assert case.scenario is not None and not isinstance(case.scenario.cluster, str)
    small = case.scenario.cluster.model_copy(update={"memory_bytes": 20 * 2**30})
    scenario = case.scenario.model_copy(update={"cluster": small})
    found = compare(Group("small", (replace(case, scenario=scenario),)))
    assert found.verdict == "memory" and not found.best_row.fits and not found.plan
    assert "none of" in found.note
    assert "does not fit as simulated" in page([found])


def test_measured_times_from_times_and_from_rates() -> None:
    rows = shipped("torchtitan")
    rated = next(g for g in groups(rows) if g.cases[0].metrics[0].metric == "step_time")
    case = rated.cases[0]
    from windtunnel.validation.predict.validate import simulate_row

    assert case.scenario is not None
    result = simulate_row(case.scenario)
    target = case.metrics[0]
    assert measured_s(case, result) == pytest.approx(target.measured)
    rate = replace(target, metric="tokens_per_s", convert=lambda r: 1000.0 / r.step_time_s, measured=250.0)
    assert measured_s(replace(case, metrics=(rate,)), result) == pytest.approx(4.0)
    memory = replace(target, metric="peak_memory_reserved")
    assert measured_s(replace(case, metrics=(memory,)), result) is None


def test_outcomes_survive_their_file_and_know_what_they_depend_on(tmp_path: Path) -> None:
    group, found = smallest()
    assert outcome_of(json.loads(json.dumps(found.to_dict()))) == found
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps(found.to_dict()) + "\n" + '{"key": "cut o')
    assert done_before(lines) == {identity(group): found}
    fewer = Group(group.key, group.cases[:1])
    assert identity(fewer) != identity(group)


def test_a_second_run_continues_the_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "table.md"
    command = ["--out", str(out), "--family", "torchtune-ablation", "--limit", "1"]
    assert main(command) == 0 and main(command) == 0
    lines = out.with_suffix(".jsonl").read_text().splitlines()
    assert len(lines) == len({json.loads(line)["key"] for line in lines}) == 2
    assert "## torchtune-ablation" in out.read_text()
    assert main([str(tmp_path / "absent.json"), "--out", str(out)]) == 2
    assert "absent.json" in capsys.readouterr().err


def test_remarks_say_what_a_gain_rests_on() -> None:
    _, found = smallest()
    assert "recomputes less: rests on the memory model" in remarks(found)
    bounds_without_memory_limit = replace(found, reserved_gib=0.1 * found.capacity_gib)
    assert "recomputes less, with memory to spare" in remarks(bounds_without_memory_limit)
    full = replace(found, reserved_gib=0.99 * found.capacity_gib, plan="dp 8 mbs 1 zero 1 recompute selective")
    assert "fills 99% of the memory" in remarks(full)
    assert any(r.startswith("cuts the model less") for r in remarks(full))
    row = replace(found.best_row, measured_s=2 * found.best_row.simulated_s)
    assert "the row itself is predicted −50%" in remarks(replace(found, best_row=row))
    assert ("not told apart" in remarks(found)) is not found.told_apart
    assert "## Gains above 20%" in page([replace(found, plan_s=0.5 * found.best_row.simulated_s)])


def test_the_page_shows_what_the_planner_does_not_reach() -> None:
    _, found = smallest()
    text = page([found])
    assert "No row plan is faster than the planner's." in text and "GPT 22B" in text
    lost = replace(found, verdict="slower", plan_s=2 * found.best_row.simulated_s)
    assert "**not found**" in page([found, lost])
