"""What `serve` shows: time series, what iterations are made of, why requests wait, the HTML file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from view_texts import printed

from windtunnel.serving import simulate
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.results.metrics import backlog_grows, too_short_to_tell
from windtunnel.serving.results.run_record import time_series
from windtunnel.serving.results.time_breakdown import DECODE, iteration_parts
from windtunnel.views.charts_serve import latency_figure, load_figure, requests_figure
from windtunnel.views.serve import view
from windtunnel.views.serve_words import slo_of
from windtunnel.writers import html

SCENARIO: dict[str, Any] = {
    "name": "chat <b>",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "serving": {
        "engine": "vllm",
        "engine_version": "0.10.0",
        "pools": [{"replicas": 2, "plan": {"tp": 1}}],
        "traffic": {
            "rate_per_s": 20,
            "num_requests": 600,
            "input_tokens": {"distribution": "lognormal", "mean": 700, "cv": 0.8},
            "output_tokens": {"distribution": "lognormal", "mean": 150, "cv": 0.6},
        },
        "slo": {"ttft_s": 0.5, "tpot_s": 0.03},
    },
}
POOL = "serving.pools=[{plan: {tp: 1}, limits: {%s}, kv: {%s}}]"


def served(*overrides: str) -> Any:
    return simulate.simulate_serving(SCENARIO, overrides=overrides)


@pytest.fixture(scope="module")
def result() -> Any:
    return served()


def test_time_series_add_up_to_the_run(result: Any) -> None:
    series = time_series(result.record, 77)
    width = np.diff(series.edges_s)
    requests, span = result.record.requests, width.sum()
    assert (series.output_tokens_per_s * width).sum() == pytest.approx(requests.output_tokens.sum())
    assert (series.prompt_tokens_per_s * width).sum() == pytest.approx(requests.input_tokens.sum())
    assert (series.arrivals_per_s * width).sum() == pytest.approx(600)
    assert (series.running * width).sum() / span == pytest.approx(result.running_mean, rel=1e-6)
    assert (series.waiting * width).sum() / span == pytest.approx(result.waiting_mean, rel=1e-6, abs=1e-9)
    assert (series.kv_usage * width).sum() / span == pytest.approx(result.kv_cache_usage_mean, rel=0.1)
    assert series.running_by_instance.shape == (2, 77)
    assert np.allclose(series.running_by_instance.sum(axis=0), series.running)
    frame = result.series_frame(10)
    assert list(frame.columns) == [
        "time_s",
        "running",
        "waiting",
        "kv_usage",
        "prompt_tokens_per_s",
        "output_tokens_per_s",
        "arrivals_per_s",
    ]
    assert len(frame) == 10 and frame["kv_usage"].between(0, 1).all()


def test_an_empty_instance_has_an_empty_cache_between_requests() -> None:
    quiet = served("serving.traffic.rate_per_s=0.01", "serving.traffic.num_requests=5")
    series = time_series(quiet.record, 400)
    idle = series.running == 0
    assert idle.mean() > 0.5 and series.kv_usage[idle].max() == pytest.approx(0.0, abs=1e-12)
    assert series.kv_usage.max() > 0


def test_classes_of_an_iteration_sum_to_it() -> None:
    for changes in ((), ("model=openai/gpt-oss-20b", "serving.precision={weights: bf16, experts: mxfp4}")):
        d = simulate.prepare(SCENARIO, overrides=changes)
        linear = d.iteration.linear
        assert np.allclose(sum(linear.parts.values()), linear.seconds, rtol=1e-9)
        batch = {"tokens": 300.0, "pairs": 5e4, "prompt_tokens": 280.0, "kv": 3e4, "sequences": 21.0}
        parts = iteration_parts(d.iteration, **batch)
        assert sum(parts.values()) == pytest.approx(d.iteration.seconds(**batch), rel=1e-6)
        assert ("expert weights" in parts) == bool(changes)


def test_few_tokens_read_weights_and_many_are_bound_by_products() -> None:
    d = simulate.prepare(SCENARIO)
    few, many = (iteration_parts(d.iteration, tokens=n, prompt_tokens=n) for n in (8.0, 8000.0))
    assert next(iter(few)) == "weights" and few["matrix products"] < 0.05 * few["weights"]
    assert next(iter(many)) == "matrix products" and many["weights"] < 0.1 * many["matrix products"]


def test_a_run_says_which_limit_makes_requests_wait(result: Any) -> None:
    assert "decode by " in result.bound_by and set(result.composition) == {
        DECODE,
        "iteration with prompts",
    }
    few = served(POOL % ("max_num_seqs: 4", ""))
    assert "4 sequences run (max_num_seqs)" in few.bound_by
    small = served(POOL % ("", "num_blocks: 700"))
    assert "the cache is full" in small.bound_by
    budget = served(
        POOL % ("max_num_seqs: 256, max_num_batched_tokens: 256", ""),
        "serving.traffic.rate_per_s=60",
        "serving.traffic.output_tokens=4",
    )
    assert "256 tokens (max_num_batched_tokens)" in budget.bound_by
    polled = served(POOL % ("scheduler_interval: 40", ""), "serving.traffic.rate_per_s=6")
    assert "the engine looks at the queue every 40 steps" in polled.bound_by
    offline = served(
        POOL % ("max_num_seqs: 1024", ""), "serving.traffic.rate_per_s=null", "serving.traffic.offline=true"
    )
    assert "8,192 tokens (max_num_batched_tokens)" in offline.bound_by


def test_the_report_is_one_file_that_says_everything(result: Any, tmp_path: Path) -> None:
    text = html.write(view(result), tmp_path / "r.html").read_text(encoding="utf-8")
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", outside)
    assert "chat &lt;b&gt;" in outside and "chat <b>" not in outside
    for title in (
        "Latencies",
        "Load over time",
        "Tokens over time",
        "Where an iteration&#x27;s time goes",
        "TTFT by arrival",
        "Memory of a device",
        "Instances",
        "Assumed",
        "Limits as resolved",
        "Goodput",
        "Bound by",
    ):
        assert title in outside, title
    assert outside.count('<figure class="chart') == 11
    assert "Saturated" not in outside and 'class="card stop"' not in outside


def test_saturation_is_said_in_red() -> None:
    hot = served("serving.traffic.rate_per_s=400", "serving.pools=[{plan: {tp: 1}}]")
    assert hot.saturated
    text = html.render(view(hot))
    assert re.search(r'<div class="card stop"><b>(<[^>]*>)*Saturated', text)
    waiting = load_figure(hot, time_series(hot.record)).charts[1]
    assert "waiting" in waiting.title and any(one.mark.get("color") == "#b71c1c" for one in waiting.layers)


def test_long_runs_make_small_files() -> None:
    long = served("serving.traffic.num_requests=40000")
    text = html.render(view(long))
    assert len(text.encode()) < 1_500_000
    dots = requests_figure(long).layers[0].rows
    assert len(dots) <= 1000
    assert max(row["y"] for row in dots) == pytest.approx(np.nanmax(long.table["ttft_s"]), rel=1e-3)


def test_the_objective_is_drawn_where_it_is(result: Any) -> None:
    assert slo_of(result) == {"percentile": 0.9, "ttft": 0.5, "tpot": 0.03}
    rules = [
        row["x"]
        for c in latency_figure(result).charts
        for one in c.layers
        if one.mark["type"] == "rule"
        for row in one.rows
    ]
    assert rules == [0.5, 0.03]


def piled(stay_grows: float, wait_grows: float = 0.0) -> Requests:
    """4,000 requests in 200 s, each a second long; line and stay in the batch grow with every second that passes."""
    out = Requests(
        arrival_s=np.arange(4000) / 20.0,
        input_tokens=np.full(4000, 10, np.int32),
        output_tokens=np.full(4000, 10, np.int32),
    )
    out.scheduled_s = out.arrival_s * (1.0 + wait_grows)
    out.first_token_s = out.scheduled_s + 0.1
    out.finish_s = out.scheduled_s + 1.0 + stay_grows * out.arrival_s
    return out


def test_batches_that_keep_filling_are_no_steady_state() -> None:
    assert not backlog_grows(piled(0.0)) and not too_short_to_tell(piled(0.0))
    assert backlog_grows(piled(0.0, wait_grows=0.2)), "a line"
    assert backlog_grows(piled(0.1)), "no line, and batches that grow"
    assert not backlog_grows(piled(0.5)) and too_short_to_tell(piled(0.5)), "answers as long as the run"
    run = served("serving.traffic.rate_per_s=200", POOL % ("max_num_seqs: 4096", "num_blocks: 900000"))
    assert "ask for more requests" in run.warnings[0] or run.saturated


def test_the_summary_fits_eighty_columns(result: Any) -> None:
    for run, words in (
        (result, ("Goodput", "Bound by", "running, at most", "100.0 % of requests")),
        (
            served("serving.traffic.rate_per_s=400", "serving.traffic.num_requests=3000"),
            ("Saturated", "missed", "waiting, at most"),
        ),
    ):
        text = printed(view(run), 80)
        assert all(len(line) <= 80 for line in text.splitlines())
        for word in words:
            assert word in text, word


def test_conversations_longer_than_the_run_are_warned_of() -> None:
    sessions = "serving.traffic.sessions={turns: {mean: 4}, think_time_s: 30}"
    short = served(sessions, "serving.traffic.rate_per_s=20")
    assert "conversations last" in short.warnings[0] and "ask for more requests" in short.warnings[0]
    slow = served(sessions, "serving.traffic.rate_per_s=0.5")
    assert not slow.warnings and not slow.saturated
    hot = served(sessions.replace("30", "2"), "serving.traffic.rate_per_s=60", "serving.traffic.num_requests=8000")
    assert hot.saturated, "turns slow one another down, and still the line grows while conversations begin"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_mean_iterations_account_for_the_busy_time(engine: str) -> None:
    run = served(
        f"serving.engine={engine}", "serving.engine_version=0.5.1" if engine == "sglang" else "serving.engine=vllm"
    )
    assert run.limits["mixed_batches"] is (engine == "vllm")
    kinds, counts = run.composition, run.iterations
    prompts = counts["with_prompts"] * sum(kinds["iteration with prompts"].values())
    decodes = (counts["count"] - counts["with_prompts"]) * sum(kinds[DECODE].values())
    assert prompts + decodes == pytest.approx(counts["count"] * counts["mean_s"], rel=0.03)


def test_a_run_shows_itself_in_a_notebook(result: Any) -> None:
    shown = result._repr_html_()
    assert shown.count("<figure") == 3 and "TTFT" in shown and "<script" not in shown
    assert len(repr(result)) < 300 and "TPOT" in repr(result)
