"""Loads side by side, deadlines, and what a scenario without a population tells."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.programs.answers import most_in_time
from windtunnel.programs.charts import ACROSS, front_chart, load_chart
from windtunnel.views.reason import answer_lines, answer_tables, headline, row, titles

NODES = [{"id": "a", "output_tokens": 200}, {"id": "b", "after": ["a"], "output_tokens": 100}]


def scenario(**programs: Any) -> dict[str, Any]:
    given = {"strategy": {"graph": {"nodes": NODES}}, "problems": 60, "concurrency": [4, 16]} | programs
    return {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
        "programs": {name: value for name, value in given.items() if value is not None},
    }


def test_a_list_of_loads_is_a_candidate_each_and_equals_single_runs() -> None:
    both = api.simulate_programs(scenario())
    assert [p.load for p in both.points] == [4, 16]
    for own, at_once in zip(both.points, (4, 16), strict=True):
        alone = api.simulate_programs(scenario(concurrency=at_once)).points[0]
        assert alone.load is None
        assert own.latency_s == alone.latency_s and own.cost_usd == alone.cost_usd
    assert both.load_unit == "problems at once"


def test_the_deadline_says_how_many() -> None:
    free = api.simulate_programs(scenario())
    middle = 0.5 * (free.points[0].latency_s["p99"] + free.points[1].latency_s["p50"])
    result = api.simulate_programs(scenario(deadline_s=middle))
    (answer,) = result.answers["most_in_time"]
    assert (answer["load"], answer["breaks_at"]) == (4, 16)
    assert 4 <= answer["between"] <= 16
    assert result.best is not None and result.best.load == 4
    assert "95 % of problems within" in headline(result)
    assert load_chart(result) is not None and front_chart(result, ACROSS[0]) is None
    assert "4 problems at once keep the deadline, 16 do not" in answer_lines(result)[0]
    table = next(t for t in answer_tables(result) if t[0].startswith("How many"))
    assert table[3][0][2:4] == ["4", "16"]
    assert "in time" in titles(result) and len(row(result, result.points[0])) == len(titles(result))


def test_where_all_or_none_keep_the_deadline_there_is_no_border() -> None:
    easy = api.simulate_programs(scenario(deadline_s=1e6))
    assert easy.answers["most_in_time"][0]["breaks_at"] is None
    assert "all loads keep the deadline" in answer_lines(easy)[0]
    hard = api.simulate_programs(scenario(deadline_s=1e-3))
    assert hard.answers["most_in_time"][0]["load"] is None and hard.best is None
    assert headline(hard).startswith("no candidate keeps 95 % of problems")
    assert most_in_time((), 0.9) == []


def test_without_a_population_no_accuracy_is_told() -> None:
    result = api.simulate_programs(scenario(concurrency=4))
    assert result.points[0].accuracy is None and result.population == {}
    assert result.objective == "cost_per_task" and result.best is not None
    assert any(field == "population" for field, _, _ in result.assumed)
    attempt = [{"id": "a", "attempt": True}]
    for strategy in ({"best_of_n": {"n": 2}}, {"graph": {"nodes": attempt, "answer": "a"}}):
        with pytest.raises(BadInput, match="population: is required"):
            api.simulate_programs(scenario(strategy=strategy))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"concurrency": [4, 4]}, "twice"),
        ({"concurrency": [4, 0]}, "must be a number from 1e-9"),
        ({"concurrency": None, "offline": True, "loads": [1]}, "goes with rate_per_s or concurrency"),
        ({"concurrency": []}, "at least one value"),
        ({"concurrency": [4, "x"]}, "must be a number from 1e-9"),
        ({"loads": [1.5, 2]}, "whole numbers"),
        ({"deadline_share": 0.9}, "goes with deadline_s"),
        ({"deadline_s": 5, "deadline_share": 1.2}, "deadline_share"),
    ],
)
def test_loads_that_cannot_be_are_told(changes: dict[str, Any], words: str) -> None:
    if "loads" in changes and "concurrency" not in changes:
        changes = {"concurrency": 4, **changes}
    with pytest.raises(BadInput, match=words):
        api.simulate_programs(scenario(**changes))


def test_a_drawn_accuracy_has_the_bands_of_programs_and_of_the_population() -> None:
    nodes = [{"id": "a", "attempt": True, "output_tokens": 5}]
    base = scenario(strategy={"graph": {"nodes": nodes, "answer": "a"}}, problems=400, concurrency=None, offline=True)
    sure = api.simulate_programs({**base, "population": {"beta": {"a": 1.0, "b": 1.0}}}).points[0].accuracy
    errors = {"a": 1.0, "b": 1.0, "log_sd_a": 0.5, "log_sd_b": 0.5}
    fitted = api.simulate_programs({**base, "population": {"beta": errors}}).points[0].accuracy
    assert sure is not None and fitted is not None
    assert fitted.mean == sure.mean == pytest.approx(0.5, abs=0.08)
    assert sure.high - sure.low == pytest.approx(2 * 1.645 * 0.5 / 20, rel=0.1)  # Wilson's, of 400 programs
    assert fitted.high - fitted.low > 3 * (sure.high - sure.low)
