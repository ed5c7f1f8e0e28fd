"""What programs outside rely on in the records of commands: figures, views, sections, draws, loads, freed axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel import api
from windtunnel.commands import COMMANDS
from windtunnel.commands.base import Question
from windtunnel.commands.serve_curve import page_options
from windtunnel.errors import BadInput
from windtunnel.mcp.summaries import summary
from windtunnel.scenarios.source import FieldsInFolder

FIGURES = {
    "train": "step_time_s tokens_per_s_per_device mfu memory_fits peak_memory_reserved_bytes bound_by num_devices "
    "cost_per_million_tokens mean_power_w breakdown",
    "serve": "ttft_s tpot_s e2e_s output_tokens_per_s throughput_requests_per_s slo_attainment saturated "
    "kv_cache_usage_max cost_per_million_output_tokens bound_by num_devices",
    "fit": "fits reserved_bytes capacity_bytes over_bytes largest_mbs fewest_devices changes",
    "run": "days ideal_days goodput ettr badput failures_mean restarts_mean checkpoint spares cost currency energy_kwh "
    "carbon_kg",
    "cluster": "policy jobs jct_s makespan_s queue_s utilisation fragmentation finish_time_fairness preemptions "
    "energy_kwh cost power_w",
    "learn": "time_to_target_s resolved bytes_per_worker_step utilisation staleness worker_steps_per_s",
    "reason": "objective best limits population answers",
    "plan": "best recommended proof objectives evaluated",
    "advise": "bottleneck objective suggestions settings pairs",
    "compare": "a_step_time_s b_step_time_s ratio differences",
}
"""Command → fields that a small answer of the protocol server has, in their order."""
VIEWS = {
    "train": "train", "serve": "serve", "fit": "fit", "run": "run", "cluster": "cluster", "learn": "learn",
    "reason": "reason", "advise": "advise", "compare": "compare", "timeline": "timeline", "serve_curve": "serve_sweep",
}  # fmt: skip
SECTIONS = {
    "train": "training", "serve": "serving", "run": "run", "cluster": "jobs", "learn": "learning",
    "reason": "programs",
}  # fmt: skip
MAIN = {"train": "step_time_s", "serve": "ttft_s", "run": "days"}
TWO: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 2},
    "training": {"seq_len": 2048, "global_batch": 8},
}


@pytest.mark.parametrize("id", FIGURES)
def test_figures_of_a_small_answer(id: str) -> None:
    names = FIGURES[id].split()
    assert list(COMMANDS.get(id).figures) == names
    result: dict[str, Any] = {name: 1.5 + place for place, name in enumerate(names)}
    assert summary(id, {**result, "other": 9.0}, "small").figures == result


@pytest.mark.parametrize("id", MAIN)
def test_the_interval_of_a_small_answer_is_that_of_the_main_figure(id: str) -> None:
    figures = FIGURES[id].split()
    intervals = {name: {"low": 10.0 * place, "high": 10.0 * place + 1.0} for place, name in enumerate(figures)}
    answer = summary(id, {**dict.fromkeys(figures, 1.0), "intervals": intervals}, "small")
    assert answer.interval is not None and answer.interval["low"] == 10.0 * figures.index(MAIN[id])


def test_views_and_sections() -> None:
    assert {id: COMMANDS.get(id).view for id in VIEWS} == VIEWS
    assert {id: COMMANDS.get(id).own_section for id in SECTIONS} == SECTIONS


@pytest.mark.parametrize(
    ("id", "section", "field", "first", "step"),
    [
        ("run", "run", "run.seed", 1, 1),
        ("cluster", "jobs", "jobs.seed", 1, 1),
        ("reason", "programs", "programs.seed", 1, 1),
        ("learn", "learning", "learning.seed", 3, 3),
    ],
)
def test_a_draw_is_a_seed_that_no_prediction_and_no_other_draw_has(
    id: str, section: str, field: str, first: int, step: int
) -> None:
    """Of `learn`, whose three seeds are 7 to 9 here, the first draw has 10 to 12 and the next 13 to 15."""
    draws = COMMANDS.get(id).draws
    assert draws is not None and draws.settings is not None
    source = FieldsInFolder({section: {"seed": 7, "seeds": 3}}, Path())
    for draw in (0, 1, 4):
        assert draws.settings(Question(source, draw, seed=99)) == {field: 7 + first + step * draw}


@pytest.mark.parametrize(
    ("traffic", "loads"),
    [
        ({"rate_per_s": 4}, (1.0, 8.0)),
        ({"concurrency": 40}, (10.0, 80.0)),
        ({"concurrency": 2}, (1.0, 4.0)),
    ],
)
def test_a_load_curve_without_loads_goes_from_a_quarter_to_twice_the_load(
    traffic: dict[str, Any], loads: tuple[float, float]
) -> None:
    sent = {"num_requests": 20, "input_tokens": 64, "output_tokens": 8, **traffic}
    served = {**{k: TWO[k] for k in ("model", "cluster")}, "serving": {"engine": "vllm", "traffic": sent}}
    points = COMMANDS.get("serve_curve").run(served, points=2).to_dict()["points"]
    assert [point["load"] for point in points] == [pytest.approx(load) for load in loads]


@pytest.mark.parametrize(("points", "right"), [(1, False), (2, True), (40, True), (41, False)])
def test_a_page_asks_for_two_to_forty_loads(points: int, right: bool) -> None:
    asked = {"axis": "rate=1..8", "points": points}
    if right:
        assert page_options(asked) == {"axis": "rate=1..8", "points": points}
    else:
        with pytest.raises(BadInput, match="from 2 to 40"):
            page_options(asked)
    assert page_options({"axis": "rate=1,2", "points": points})["points"] is None


def test_all_axes_are_searched_only_where_the_plan_leaves_a_single_candidate() -> None:
    rest = {"pp": 1, "cp": 1, "mbs": 1, "zero": 1, "recompute": "none"}
    set_whole, left_open = ({**TWO, "plan": {"tp": tp, **rest}} for tp in (1, "auto"))
    found = {name: api.plan(one) for name, one in (("whole", set_whole), ("open", left_open))}
    candidates = {name: one.proof.candidates for name, one in found.items()}  # type: ignore[union-attr]
    assert api.plan(set_whole, free=False).proof.candidates == 1  # type: ignore[union-attr]
    assert candidates["whole"] == api.plan(set_whole, free=True).proof.candidates > 1  # type: ignore[union-attr]
    assert candidates["open"] == api.plan(left_open, free=False).proof.candidates == 2  # type: ignore[union-attr]
