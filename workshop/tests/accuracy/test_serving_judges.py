"""Published serving results that set no coefficient: where predictions stand beside them."""

from __future__ import annotations

import pytest

from windtunnel.catalog import device
from windtunnel.cost.serving import REQUEST_MOST_S, serving_coefficients
from windtunnel.validation.rows.parsing.serving import read_serving
from windtunnel.validation.rows.row_files import serving_judges, shipped_serving_rows
from windtunnel_lab.accuracy.serving_judges import (
    ALONE_MS,
    COMPILED,
    ENGINES,
    LOADS,
    WITHIN,
    alone,
    judged,
    newest_over_compiled,
)

MISSES: dict[str, float] = {
    "mlperf-5.1-llama2-70b-b200": 0.79,
    "mlperf-5.1-llama3.1-405b-b200": 0.79,
}
"""Results that are further off than 20 %, and their ratio when that was seen: each is a line of
docs/accuracy/serving-judges.md, and leaves this table when it is mended."""


def test_judges_set_no_coefficient() -> None:
    rows = serving_judges()
    assert len(rows) >= 11 and all(row["apart"] and row["source"] for row in rows)
    assert {row["id"] for row in rows}.isdisjoint(row["id"] for row in shipped_serving_rows())


def test_judges_send_what_the_submission_sent() -> None:
    """Samples over instances, the submissions' scheduler, and the hundred answers of TEST06 of DeepSeek-R1."""
    rows = {str(row["id"]): row for row in serving_judges()}
    for row in rows.values():
        found = read_serving(row).scenario
        assert found is not None and found.serving is not None
        assert found.serving.pools[0].policy == "trtllm_max_utilization"
        limits = found.serving.pools[0].limits
        assert limits.free_gpu_memory_fraction == row["config"]["kv_cache_free_gpu_memory_fraction"]
        assert found.serving.traffic.num_requests >= 5 * (limits.max_num_seqs or 0) or "405b" in str(row["id"])
    deepseek = rows["mlperf-5.1-deepseek-r1-b200"]
    answers = deepseek["config"]["output_quantiles"]
    assert len(answers) == 100 and sum(answers) / 100 == pytest.approx(deepseek["osl"], rel=0.02)
    assert deepseek["load"]["num_requests"] == 6 * 4388


def test_offline_throughput_is_within_a_fifth_of_what_was_published() -> None:
    found = {str(one.row["id"]): one.ratio for one in judged()}
    outside = {name: ratio for name, ratio in found.items() if abs(ratio - 1.0) > WITHIN}
    assert set(outside) == set(MISSES), outside
    for name, ratio in outside.items():
        assert ratio == pytest.approx(MISSES[name], rel=0.05), name


@pytest.mark.parametrize(("engine", "release"), ENGINES)
def test_one_token_alone_takes_what_servers_take(engine: str, release: str) -> None:
    low, high = ALONE_MS
    assert low <= alone(engine, release) <= high


SLOWER = {("mistralai/Mixtral-8x7B-v0.1", 128): 0.95}
"""Loads on which release 1.2 of TensorRT-LLM comes out slower than 0.17, and by how much when that was seen."""


@pytest.mark.parametrize(("model", "tp", "slots"), LOADS)
def test_the_newest_release_is_slower_by_its_host_alone(model: str, tp: int, slots: int) -> None:
    """Batches are prepared in Python since 1.0: with the host of 0.17 no load is slower."""
    ratio, seen = newest_over_compiled(model, tp, slots), SLOWER.get((model, slots))
    assert ratio > 0.985 if seen is None else ratio == pytest.approx(seen, abs=0.02)
    assert max(ratio, 0.99) < newest_over_compiled(model, tp, slots, COMPILED)


@pytest.mark.parametrize("name", ["h100-sxm-80gb", "b200-sxm-180gb", "l40s-48gb"])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_waiting_in_benchmarks_is_no_cost_of_a_request(engine: str, name: str) -> None:
    c = serving_coefficients(engine, "", device(name))
    assert 0.0 < c.request_s <= REQUEST_MOST_S and c.crowd_s >= 0.0
