"""What reads a training result: terminal summary, HTML, figures, comparison, explanation, plain data, Chrome trace."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import zlib

import numpy as np
import pytest
from rich.console import Console
from training_result import make_result

from windtunnel import quantities
from windtunnel.exporters import perfetto
from windtunnel.training.comparison import difference
from windtunnel.training.explanation import explain
from windtunnel.training.results import charts
from windtunnel.training.results.one_line import fit_line
from windtunnel.training.results.packed_trace import pack
from windtunnel.training.results.read_result import result_from_dict
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.views import compare as compare_view
from windtunnel.views import explain as explain_view
from windtunnel.views.train import Published, view
from windtunnel.views.view import View
from windtunnel.writers import html
from windtunnel.writers.terminal import bar, render


@pytest.fixture(scope="module")
def result() -> TrainingResult:
    return make_result()


def text_of(view: View) -> str:
    out = io.StringIO()
    Console(file=out, width=140, highlight=False).print(render(view))
    return out.getvalue()


# -- plain data


def test_result_survives_json(result: TrainingResult) -> None:
    data = result.to_dict(curves=True)
    again = result_from_dict(json.loads(json.dumps(data, allow_nan=False)))
    assert again.to_dict(curves=True) == data
    assert again.trace is not None
    assert again.trace.start_s.dtype == np.float64
    assert again.trace.stage.dtype == np.int32


def test_curves_are_left_out_by_default(result: TrainingResult) -> None:
    data = result.to_dict()
    assert "trace" not in data
    assert "curve_bytes" not in data["memory"]
    assert len(json.dumps(data)) < 10_000
    assert len(result_from_dict(data).memory.curve_bytes) == 0


def test_unknown_figures_become_null() -> None:
    data = make_result(trace=False, m=8)
    object.__setattr__(data, "hfu", float("nan"))
    assert data.to_dict()["hfu"] is None


def test_frame_has_one_row_with_the_breakdown(result: TrainingResult) -> None:
    frame = result.to_frame()
    assert len(frame) == 1
    parts = [c for c in frame.columns if c.startswith("breakdown.")]
    assert frame[parts].sum(axis=1).iloc[0] == pytest.approx(result.step_time_s)


# -- terminal


def test_summary_shows_what_matters(result: TrainingResult) -> None:
    text = text_of(view(result, published=Published(14.6, 14.7)))
    for needed in (
        "12.8 s",
        "80 % interval",
        "14.6 to 14.7 s",
        "59.5 %",
        "tokens/s",
        "fits, 8.90 GiB free",
        "matrix rate",
        "bubble",
        "activations",
        "What 10 % more would buy",
        "Assumed",
        "warning:",
        "arXiv:2104.04473",
    ):
        assert needed in text, needed


def test_summary_breakdown_sums_to_the_step(result: TrainingResult) -> None:
    text = text_of(view(result))
    section = text.split("Where the time goes")[1].split("What 10 % more")[0]
    shares = [float(share) for share in re.findall(r"([\d.]+) %", section)]
    assert shares[-1] == 100.0
    assert sum(shares[:-1]) == pytest.approx(100.0, abs=0.05 * len(shares))


def test_summary_says_by_how_much_it_does_not_fit() -> None:
    text = " ".join(text_of(view(make_result(trace=False, capacity_gib=60, m=8))).split())
    assert "out of memory: 11.1 GiB too much; largest: weights 17.6 GiB," in text


def test_published_inside_and_outside(result: TrainingResult) -> None:
    assert "inside the published range" in text_of(view(result, published=Published(12.0, 13.0)))
    outside = text_of(view(result, published=Published(14.65, 14.65)))
    assert "predicted 12.6 % shorter, outside our interval" in outside
    assert "predicted 1.6 % shorter, inside our interval" in text_of(view(result, published=Published(13.0, 13.0)))


def test_bars_are_monotone() -> None:
    lengths = [len(bar(share / 50, 20)) for share in range(51)]
    assert lengths == sorted(lengths)
    assert bar(1.0, 20) == "█" * 20
    assert bar(0.0, 20) == ""
    assert bar(-1.0, 20) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0 s"), (312.04, "312 s"), (14.6237, "14.6 s"), (0.0213, "21.3 ms"), (3e-6, "3.00 µs")],
)
def test_seconds(value: float, shown: str) -> None:
    assert quantities.seconds(value) == shown


# -- figures


def test_waterfall_ends_at_the_step(result: TrainingResult) -> None:
    bars = charts.breakdown_chart(result).bars
    assert bars[-2].end == pytest.approx(result.step_time_s)
    assert bars[-1].end == result.step_time_s


def test_dominant_tags_fill_the_share_of_time_that_tasks_fill() -> None:
    result = make_result(m=8)
    trace = result.trace
    assert trace is not None
    _, tags = charts.dominant_tags(result, bins=4000)
    compute = (trace.stage == 1) & (trace.stream == 0)
    busy = float((trace.end_s[compute] - trace.start_s[compute]).sum()) / result.step_time_s
    assert (tags[1] >= 0).mean() == pytest.approx(busy, abs=0.01)


def test_the_memory_chart_keeps_the_peak(result: TrainingResult) -> None:
    stacked = charts.memory_chart(result).layers[0].rows
    assert max(row["y"] for row in stacked) == pytest.approx(result.memory.curve_bytes.max() / 2**30, abs=0.01)


def test_thinning_keeps_every_high_point() -> None:
    curve = np.zeros(100_000)
    curve[[17, 60_321, 99_990]] = 5.0
    kept = charts._thin(curve, 2_000)
    assert len(kept) <= 2_100
    assert set(np.flatnonzero(curve)) <= set(kept.tolist())


def test_training_figure_with_and_without_trace(result: TrainingResult) -> None:
    assert result.figure().charts[0].title == "Pipeline timeline"
    assert len(make_result(trace=False, m=8).figure().charts) == 2


# -- HTML


def test_html_is_one_file_that_works_offline(result: TrainingResult) -> None:
    text = html.render(view(result, published=Published(14.6, 14.7)))
    assert len(text.encode()) < 1_500_000
    outside = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", outside)
    for needed in ("Pipeline timeline", "Memory over the step", "Where the time goes", "Assumed", "b1946ac92492d234"):
        assert needed in outside


def test_html_stays_small_with_many_events() -> None:
    result = make_result(m=640)
    assert result.trace is not None
    assert len(result.trace.start_s) > 60_000
    assert len(html.render(view(result)).encode()) < 1_500_000


def test_html_escapes_what_users_write() -> None:
    result = make_result(trace=False, m=8)
    evil = "<script>alert(1)</script>"
    object.__setattr__(result, "scenario_name", evil)
    object.__setattr__(result, "warnings", (evil,))
    object.__setattr__(result, "plan", {evil: evil})
    object.__setattr__(result, "scenario", {"model": evil})
    assert "<script>alert" not in html.render(view(result))


def test_timeline_columns_decode_to_the_trace() -> None:
    result = make_result(m=8)
    trace = result.trace
    assert trace is not None
    meta, data = pack(result)
    raw = zlib.decompress(base64.b64decode(data))
    n = meta["n"]
    gap, length = np.frombuffer(raw, "<i4", n), np.frombuffer(raw, "<i4", n, 4 * n)
    tag = np.frombuffer(raw, "<i2", n, 12 * n)
    seen = []
    for stage, stream, a, b in meta["lanes"]:
        start = np.cumsum(gap[a:b]) * meta["tick_s"]
        seen += [(stage, stream, round(s, 5), t) for s, t in zip(start.tolist(), tag[a:b].tolist(), strict=True)]
    rows = zip(trace.stage.tolist(), trace.stream.tolist(), trace.start_s.tolist(), trace.tag.tolist(), strict=True)
    wanted = sorted((a, b, round(c, 5), d) for a, b, c, d in rows)
    np.testing.assert_allclose(np.array(sorted(seen)), np.array(wanted), atol=2e-5)
    assert float(length.min()) * meta["tick_s"] == pytest.approx(float((trace.end_s - trace.start_s).min()), abs=1e-6)


# -- comparison, explanation


def test_difference_sums_to_the_difference(result: TrainingResult) -> None:
    other = make_result(trace=False, slower=3.0, m=32)
    comparison = difference(result, other)
    gap = other.step_time_s - result.step_time_s
    assert sum(comparison.seconds_by_class.values()) == pytest.approx(gap)
    assert "step time" in text_of(compare_view.view(comparison))
    assert comparison.to_dict()["step_time_difference_s"] == pytest.approx(gap)


def test_difference_names_the_class_that_changed() -> None:
    a, b = make_result(trace=False, m=8), make_result(trace=False, slower=2.0, m=8)
    deltas = difference(a, b).seconds_by_class
    assert max(deltas, key=lambda name: abs(deltas[name])) == "exposed tp"
    assert difference(a, a).seconds_by_class == {}
    assert difference(a, a).plan == {}


def test_explain_accounts_for_a_gap(result: TrainingResult) -> None:
    explanation = explain(result, against_s=result.step_time_s * 1.03)
    assert explanation.inside_interval
    backward = next(c for c in explanation.classes if c.time_class == "backward")
    assert backward.predicted_s * backward.factor == pytest.approx(backward.predicted_s + explanation.gap_s)
    assert explanation.classes[0].time_class == "backward"  # the largest class has to change least
    assert "training.attention" in text_of(explain_view.view(explanation))
    assert explain(result, against_s=30.0).inside_interval is False


def test_fit_line_names_the_largest_tensors() -> None:
    assert fit_line(make_result(trace=False, capacity_gib=60, m=8)).startswith("out of memory: 11.1 GiB too much")


# -- Chrome trace


def test_trace_is_chrome_json(result: TrainingResult, tmp_path: object) -> None:
    from pathlib import Path

    assert isinstance(tmp_path, Path)
    trace = result.trace
    assert trace is not None
    path = perfetto.write(result, tmp_path / "t.json.gz")
    data = json.loads(gzip.decompress(path.read_bytes()))
    events = data["traceEvents"]
    complete = [e for e in events if e["ph"] == "X"]
    assert len(complete) == len(trace.start_s)
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {f"stage {s}" for s in range(4)}
    counters = [e for e in events if e["ph"] == "C"]
    assert max(sum(e["args"].values()) for e in counters) == pytest.approx(result.memory.curve_bytes.max(), abs=10)
    assert all(round(e["ts"] * 1000) == pytest.approx(e["ts"] * 1000, abs=1e-3) for e in complete)


def test_trace_times_are_whole_nanoseconds_and_keep_order() -> None:
    result = make_result(m=8)
    trace = result.trace
    assert trace is not None
    complete = [e for e in perfetto.trace_events(result) if e["ph"] == "X"]
    first = min(complete, key=lambda e: (e["pid"], e["tid"], e["ts"]))
    assert first["name"] == "forward"
    assert first["args"] == {"micro_batch": 0, "chunk": 0}
    by_thread: dict[tuple[int, int], float] = {}
    for event in complete:  # tasks of one stream never overlap in the file
        key = (event["pid"], event["tid"])
        assert event["ts"] >= by_thread.get(key, 0.0) - 0.002
        by_thread[key] = event["ts"] + event["dur"]


def test_trace_needs_a_trace() -> None:
    with pytest.raises(ValueError, match="trace=True"):
        perfetto.trace_events(make_result(trace=False, m=8))


def test_small_differences_are_gathered_without_losing_seconds() -> None:
    from windtunnel.training.comparison import without_crumbs

    deltas = {"a": 1.0, "b": -0.5, "c": 1e-4, "d": -3e-4}
    shown = without_crumbs(deltas, 1e-3)
    assert list(shown) == ["a", "b", "2 smaller"]
    assert sum(shown.values()) == pytest.approx(sum(deltas.values()))


def test_trace_event_fields_to_the_nanosecond() -> None:
    from dataclasses import replace

    from windtunnel.training.results.records import TraceEvents

    one = np.array([1], np.int32)
    trace = TraceEvents(
        start_s=np.array([1.0000000014]),
        end_s=np.array([1.0000021016]),
        stage=2 * one,
        stream=one,
        tag=0 * one,
        micro_batch=-one,
        chunk=0 * one,
        streams=("compute", "dp"),
        tags=("dp reduce",),
    )
    result = replace(make_result(m=8), trace=trace)
    events = [e for e in perfetto.trace_events(result) if e["ph"] == "X"]
    assert events == [
        {
            "ph": "X",
            "name": "dp reduce",
            "cat": "dp",
            "pid": 2,
            "tid": 1,
            "ts": 1000000.001,
            "dur": 2.101,
            "args": {"chunk": 0},
        }
    ]


def test_comparison_report_is_one_escaped_file(result: TrainingResult) -> None:
    other = make_result(trace=False, slower=2.0, m=32)
    object.__setattr__(other, "scenario_name", "<script>alert(1)</script>")
    text = html.render(compare_view.view(difference(result, other)))
    assert "<script>alert" not in text
    assert "From A to B" in text
    assert len(text.encode()) < 1_500_000


def test_explain_names_the_resource_change_that_closes_the_gap(result: TrainingResult) -> None:
    explanation = explain(result, against_s=result.step_time_s * 1.0142)
    # 10 % more matrix rate gives −7.1 %, so 2 % less of it gives +1.42 %; bandwidth would have to lose 12 %
    assert explanation.resources["matrix rate"] == pytest.approx(-0.02)
    assert explanation.resources["HBM bandwidth"] == pytest.approx(-0.1 * 0.0142 / 0.012)
    assert "scale-out bandwidth" not in explanation.resources  # more than half
    assert "scale-out latency" not in explanation.resources  # no effect at all
    assert next(iter(explanation.resources)) == "matrix rate"
    assert explain(result).resources == {}


def test_notebooks_show_a_table_and_a_figure(result: TrainingResult) -> None:
    shown = result._repr_html_()
    assert "<table>" in shown and shown.count('<figure class="chart') == 1 and "<script" not in shown
    assert quantities.seconds(result.step_time_s) in shown and f"{100 * result.mfu:.1f} %" in shown
    assert repr(result).startswith(f"<{result.scenario_name}: step ") and len(repr(result)) < 200


def test_values_are_written_as_people_read_them() -> None:
    assert quantities.assumed_text("cluster.host_memory_bytes", "2.199e+12") == "2,050 GiB"
    assert (
        quantities.assumed_text("a.b", "True") == "yes" and quantities.assumed_text("plan.recompute", "none") == "none"
    )
    assert (
        quantities.value_text({"policy": "modules", "modules": ["mlp"], "num_layers": None})
        == "policy modules, modules mlp"
    )
    assert quantities.value_text([4] * 20) == "20 × 4" and quantities.value_text(float("inf")) == "no limit"
    assert quantities.signed_percent(-0.01) == "−1.0 %" and quantities.signed_percent(0.0) == "0.0 %"
    assert quantities.dollars(0.7264) == "$0.726"


def test_money_has_a_currency_and_changes_have_one_minus(result: TrainingResult) -> None:
    faster = make_result(trace=False, slower=0.5, m=64)
    text = text_of(compare_view.view(difference(result, faster)))
    assert "−" in text and not re.search(r"(?<![\w)])-\d", text)
    assert "$0.640 per million tokens" in html.render(view(result))


def test_the_page_writes_no_raw_values(result: TrainingResult) -> None:
    outside = re.sub(r"<(script|style).*?</\1>|<pre>.*?</pre>", "", html.render(view(result)), flags=re.S)
    assert not re.search(r"\de\+\d\d|>True<|>False<|\{&#x27;", outside)
