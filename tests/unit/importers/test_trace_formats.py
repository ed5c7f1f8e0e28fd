"""Readers of request traces: what each file becomes, and what is said of files that cannot be used."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from request_traces import (
    AZURE,
    BAILIAN,
    BATCH,
    BENCH,
    BURSTGPT,
    BURSTGPT_2,
    EXPORT,
    FILES,
    GUIDELLM,
    INPUTS,
    LIFECYCLE,
    METRICS,
    MOONCAKE,
    RECORD,
    SHAREGPT,
    TABLE,
    lines,
)

from windtunnel.errors import BadInput
from windtunnel.importers.traces import TRACES, Options, PrefixBlocks, claims, read_trace
from windtunnel.serving.traffic import generate
from windtunnel.serving.traffic.session_groups import continued
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.traffic import TrafficSpec


def written(folder: Path, text: str, name: str = "trace.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, format: str = "auto", options: Options | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        read_trace(path, format, options)
    return str(caught.value)


def test_every_format_has_an_example_and_is_claimed_by_itself_alone(tmp_path: Path) -> None:
    assert set(FILES) == set(TRACES.list())
    others = {"b2.csv": BURSTGPT_2, "e.json": json.dumps(EXPORT), "i.json": json.dumps(INPUTS, indent=1)}
    for format, (name, text) in FILES.items():
        assert claims(written(tmp_path, text, name)) == [format]
        assert claims(written(tmp_path, "\ufeff" + text, name)) == [format]
    for name, text in others.items():
        assert claims(written(tmp_path, text, name)) == ["burstgpt" if name == "b2.csv" else "aiperf"]


# -- what each becomes -------------------------------------------------------------------------------------------------
def test_azure(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, AZURE.replace("\n", "\r\n")))
    np.testing.assert_allclose(trace.arrival_s, [0, 0.098189, 0.252], atol=1e-9)
    assert trace.input_tokens.tolist() == [4808, 110, 3180] and trace.output_tokens.tolist() == [10, 27, 8]
    zoned = AZURE.replace("600,", "600+00:00,").replace("490,", "490+00:00,")
    np.testing.assert_allclose(read_trace(written(tmp_path, zoned)).arrival_s, trace.arrival_s)


def test_burstgpt_leaves_failures_out(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, BURSTGPT))
    assert trace.arrival_s is not None and trace.arrival_s.tolist() == [0, 40, 213]
    assert trace.output_tokens.tolist() == [18, 230, 276]
    assert trace.left_out == ((1, "failed: no response tokens, or an empty request"),)
    trace = read_trace(written(tmp_path, BURSTGPT_2))
    assert trace.session is not None and trace.session[0] == trace.session[2] != trace.session[1]
    assert trace.e2e_s is not None and trace.e2e_s.tolist() == [1.5, 2.5, 1.0]


def test_mooncake_blocks(tmp_path: Path) -> None:
    path = written(tmp_path, lines(MOONCAKE))
    trace = read_trace(path)
    assert trace.arrival_s is not None and trace.arrival_s.tolist() == [0, 0.25, 0.5]
    assert trace.blocks is not None and trace.blocks.block_size == 512
    assert [trace.blocks[i].tolist() for i in range(3)] == [[0, 1, 2], [0, 1, 3], [4, 5]]
    assert trace.blocks.known().tolist() == [0, 2, 0]
    traffic = generate(TrafficSpec(trace="trace.txt"), folder=tmp_path)
    assert traffic.requests.prefix_tokens.tolist() == [0, 1024, 0]
    assert traffic.requests.prefix_blocks is not None
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(read_trace(packed).input_tokens, trace.input_tokens)


def test_mooncake_names_of_content_become_prefixes(tmp_path: Path) -> None:
    """Where a block's id does not cover those before it, equal ids behind different blocks are no hit."""
    records = [
        {"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": ["a", "b"]},
        {"timestamp": 1, "input_length": 1024, "output_length": 1, "hash_ids": ["c", "b"]},
        {"timestamp": 2, "input_length": 1536, "output_length": 1, "hash_ids": ["c", "b", "a"]},
    ]
    trace = read_trace(written(tmp_path, lines(records)))
    assert trace.blocks is not None
    assert trace.blocks.known().tolist() == [0, 0, 2]


def test_mooncake_sessions_add_to_the_turns_before(tmp_path: Path) -> None:
    records = [
        {"session_id": "x", "timestamp": 500, "input_length": 100, "output_length": 10},
        {"session_id": "y", "timestamp": 0, "input_length": 7, "output_length": 3},
        {"session_id": "x", "delay": 2000, "input_length": 20, "output_length": 5},
    ]
    written(tmp_path, lines(records))
    requests = generate(TrafficSpec(trace="trace.txt"), folder=tmp_path).requests
    assert requests.input_tokens.tolist() == [100, 130, 7] and requests.prefix_tokens.tolist() == [0, 110, 0]
    assert requests.follow.tolist() == [1, -1, -1] and requests.delay_s.tolist() == [2, 0, 0]
    np.testing.assert_array_equal(requests.arrival_s, [0.5, np.nan, 0])
    assert requests.order().tolist() == [2, 0]


def test_sharegpt_counts_characters_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps(SHAREGPT))
    trace = read_trace(path)
    assert trace.input_tokens.tolist() == [10, 2, 4] and trace.output_tokens.tolist() == [20, 1, 1]
    assert trace.left_out == ((1, "last messages without an answer"),)
    assert ("serving.traffic.trace_characters_per_token", 4.0) == trace.assumed[0][:2]
    assert read_trace(path, options=Options(characters_per_token=2)).input_tokens.tolist() == [20, 4, 7]
    requests = generate(TrafficSpec(trace="trace.txt", concurrency=2), folder=tmp_path).requests
    assert requests.input_tokens.tolist() == [10, 32, 4] and requests.follow.tolist() == [1, -1, -1]
    with pytest.raises(BadInput, match="rate_per_s: or concurrency or offline: true is required"):
        generate(TrafficSpec(trace="trace.txt"), folder=tmp_path)


def test_vllm_bench_keeps_what_was_measured_and_how_it_was_sent(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, json.dumps(BENCH)))
    assert trace.input_tokens.tolist() == [100, 200] and trace.arrival_s is None
    assert trace.ttft_s is not None and trace.ttft_s.tolist() == [0.5, 0.25]
    np.testing.assert_allclose(trace.e2e_s, [0.7, 0.45])
    assert trace.stated == {"concurrency": 2}
    traffic = generate(TrafficSpec(trace="trace.txt"), folder=tmp_path)
    assert traffic.concurrency == traffic.spec.concurrency == 2 and "says so" in traffic.assumed[0][2]
    closed = BENCH | {"start_times": [5.0, 4.0, 6.0], "latencies": [1.0, 2.0, 0.0]}
    trace = read_trace(written(tmp_path, json.dumps(closed)))
    assert trace.arrival_s is None and trace.e2e_s is not None and trace.e2e_s.tolist() == [1.0, 2.0]
    rated = BENCH | {"request_rate": 2.5, "burstiness": 0.5, "start_times": [5.0, 4.0, 6.0]}
    trace = read_trace(written(tmp_path, json.dumps(rated)))
    assert trace.stated == {"rate_per_s": 2.5, "process": "gamma", "burstiness": 0.5}
    assert trace.arrival_s is not None and trace.arrival_s.tolist() == [0, 1]
    assert trace.input_tokens.tolist() == [200, 100]


def test_aiperf_records(tmp_path: Path) -> None:
    second = json.loads(json.dumps(RECORD))
    second["metadata"]["request_start_ns"] += 1_500_000_000
    failed = {"metadata": second["metadata"] | {"was_cancelled": True}, "metrics": {}, "error": {"code": 499}}
    trace = read_trace(written(tmp_path, lines([second, RECORD, failed])))
    np.testing.assert_allclose(trace.arrival_s, [0, 1.5], atol=1e-6)
    np.testing.assert_allclose(trace.ttft_s, 0.25)
    np.testing.assert_allclose(trace.e2e_s, 0.5)
    assert trace.session is not None and trace.session.tolist() == [0, 0]
    assert trace.left_out == ((1, "failed or cancelled"),)


def test_aiperf_exports_and_inputs(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, json.dumps(EXPORT)))
    assert trace.input_tokens.tolist() == [12, 100] and trace.output_tokens.tolist() == [34, 2]
    assert trace.stated == {"concurrency": 4} and trace.arrival_s is None
    rated = json.dumps(EXPORT).replace("concurrency", "request_rate")
    trace = read_trace(written(tmp_path, rated))
    assert trace.stated == {} and trace.arrival_s is not None and trace.arrival_s.tolist() == [0, 1]
    np.testing.assert_allclose(trace.ttft_s, [0.5, 0.1])
    trace = read_trace(written(tmp_path, json.dumps(INPUTS)))
    assert trace.input_tokens.tolist() == [10, 21] and trace.output_tokens.tolist() == [7, 9]
    open_ended = json.dumps({"data": [{"payload": [{"prompt": "word"}]}]})
    written(tmp_path, open_ended)
    with pytest.raises(BadInput, match="output_tokens: is required: 1 requests"):
        generate(TrafficSpec(trace="trace.txt", offline=True), folder=tmp_path)
    spec = TrafficSpec(trace="trace.txt", offline=True, output_tokens=5)
    assert generate(spec, folder=tmp_path).requests.output_tokens.tolist() == [5]


def test_bailian(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, lines(BAILIAN)))
    assert trace.arrival_s is not None and trace.arrival_s[1] == pytest.approx(10)
    assert trace.session is not None and len(set(trace.session.tolist())) == 1
    assert trace.blocks is not None and trace.blocks.block_size == 16 and trace.blocks.known().tolist() == [0, 2]


def test_tables_are_read_by_the_names_of_their_columns(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, TABLE))
    assert trace.arrival_s is not None and trace.arrival_s.tolist() == [0, 2]
    assert trace.input_tokens.tolist() == [2015, 3772] and trace.left_out[0][0] == 1
    for text in (
        "arrival_ms,prompt_size,token_size\n500,2015,156\n2500,3772,54\n",
        "arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n0.5,2015,156,0.1,\n2.5,3772,54,0.2,3.0\n",
        lines(
            [
                {"input_toks": 2015, "output_toks": 156, "arrival_time_ns": 1787267980_500000000},
                {"input_toks": 3772, "output_toks": 54, "arrival_time_ns": 1787267982_500000000},
            ]
        ),
    ):
        other = read_trace(written(tmp_path, text))
        assert other.format == "table" and other.input_tokens.tolist() == [2015, 3772]
        np.testing.assert_allclose(other.arrival_s, [0, 2], atol=1e-6)
    busy = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{i / 1e5},5,6\n" for i in range(50))
    assert len(read_trace(written(tmp_path, busy))) == 50
    untimed = read_trace(written(tmp_path, "num_prefill_tokens,num_decode_tokens\n5,6\n"))
    assert untimed.arrival_s is None and untimed.output_tokens.tolist() == [6]
    message = refused(written(tmp_path, "arrival_time,input_tokens,output_tokens\n5,6,7\n"))
    assert "trace_time_unit: is required, s or ms: arrival_time holds plain numbers" in message
    message = refused(written(tmp_path, "a,input_tokens\n5,6\n"), "table")
    assert "output_tokens: is missing: one of the columns output_tokens, num_decode_tokens" in message


# -- a trace in a scenario ---------------------------------------------------------------------------------------------
def test_lengths_of_a_trace_at_other_arrivals(tmp_path: Path) -> None:
    written(tmp_path, AZURE)
    spec = TrafficSpec(trace="trace.txt", rate_per_s=100.0, process="constant", num_requests=7)
    traffic = generate(spec, folder=tmp_path)
    assert traffic.requests.input_tokens.tolist() == [4808, 110, 3180, 4808, 110, 3180, 4808]
    assert traffic.requests.arrival_s[-1] == 0.06
    assert "come again" in traffic.assumed[-1][2]
    closed = generate(TrafficSpec(trace="trace.txt", concurrency=2), folder=tmp_path)
    assert closed.concurrency == 2 and len(closed.requests) == 3


def test_time_scale_and_duration(tmp_path: Path) -> None:
    written(tmp_path, BURSTGPT)
    twice = generate(TrafficSpec(trace="trace.txt", time_scale=2), folder=tmp_path).requests
    assert twice.arrival_s.tolist() == [0, 20, 106.5]
    assert len(generate(TrafficSpec(trace="trace.txt", duration_s=41), folder=tmp_path).requests) == 2
    assert len(generate(TrafficSpec(trace="trace.txt", num_requests=1), folder=tmp_path).requests) == 1
    drawn = TrafficSpec(trace="trace.txt", output_tokens=Lengths(distribution="uniform", min=3, max=4))
    assert set(generate(drawn, folder=tmp_path).requests.output_tokens.tolist()) <= {3, 4}


def test_settings_that_a_trace_gives_no_meaning_to(tmp_path: Path) -> None:
    written(tmp_path, lines(MOONCAKE))
    wrong = TrafficSpec(
        trace="trace.txt", num_requests=4, rate_per_s=1, time_scale=2, correlation=0.5, shared_prefix_tokens=3
    )
    with pytest.raises(BadInput) as caught:
        generate(wrong, folder=tmp_path)
    named = {problem.field.rpartition(".")[2] for problem in caught.value.problems}
    assert named == {"num_requests", "time_scale", "correlation", "shared_prefix_tokens"}


def test_groups_join_prompts_that_continue_each_other() -> None:
    rows = [[0], [0, 1, 2], [0, 3], [0, 1, 2, 4, 5], [0, 1, 2, 4, 5, 6, 7]]
    start = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    blocks = PrefixBlocks(start, np.array([one for row in rows for one in row]), 10)
    tokens = np.array([5, 30, 20, 45, 70], np.int32)
    assert continued(blocks, tokens).tolist() == [0, 1, 2, 1, 1]


# -- what cannot be used -----------------------------------------------------------------------------------------------
def test_all_bad_lines_are_reported_at_once(tmp_path: Path) -> None:
    text = AZURE + "yesterday,5,5\n2023-11-16 18:17:05,-3,5\n2023-11-16 18:17:06,7.5,\n\n2023-11-16 18:17:06,x,9\n"
    message = refused(written(tmp_path, text))
    assert "TIMESTAMP = yesterday: must be a date and time" in message and ":5)" in message
    assert "ContextTokens = -3: must be a whole number from 0 to 1000000000" in message
    assert "ContextTokens = 7.5" in message and "GeneratedTokens: is missing" in message
    assert "ContextTokens = x" in message and "trace.txt:9)" in message
    assert len(message.splitlines()) == 5


def test_bad_lines_beyond_a_screenful_are_counted(tmp_path: Path) -> None:
    message = refused(written(tmp_path, AZURE + "2023-11-16 18:17:06,x,9\n" * 500))
    assert len(message.splitlines()) == 21 and "and 480 more like these" in message
    text = lines([{"timestamp": 0, "input_length": 0, "output_length": 2}] * 300)
    message = refused(written(tmp_path, text))
    assert "input_length = 0: must be a whole number from 1" in message and "and 280 more" in message


def test_lines_with_too_many_fields_and_missing_columns(tmp_path: Path) -> None:
    message = refused(written(tmp_path, AZURE + "2023-11-16 18:17:06,1,2,3\n"))
    assert "has 4 fields; the header has 3" in message and ":5)" in message
    message = refused(written(tmp_path, AZURE.splitlines()[0] + "\n2023-11-16 18:17:06,1,2,3\n" * 2))
    assert message.count("has 4 fields") == 2 and ":2)" in message
    message = refused(written(tmp_path, "TIMESTAMP,Tokens\n1,2\n"), "azure")
    assert "ContextTokens: is missing among the columns TIMESTAMP, Tokens" in message
    assert "GeneratedTokens: is missing" in message


def test_json_lines_that_are_none(tmp_path: Path) -> None:
    text = lines(MOONCAKE[:1]) + '{"timestamp": 3,\n[1]\n{"timestamp": "x", "input_length": true, "output_length": 2}\n'
    message = refused(written(tmp_path, text))
    assert "is not valid JSON" in message and ":2)" in message and "must be a JSON object (" in message
    assert "timestamp = x: must be a number" in message and "input_length = true: must be a whole number" in message


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (AZURE.replace("2023-11-16 18:17:0", ""), "is required, s or ms: TIMESTAMP holds plain numbers"),
        (lines([m | {"timestamp": m["timestamp"] / 1000} for m in MOONCAKE]), "holds 1.25, and whole milliseconds"),
        (lines([MOONCAKE[0] | {"timestamp": i // 4} for i in range(40)]), "4.33 requests/s in s and 4.33e+03 in ms"),
        (BURSTGPT + "".join(f"{9000000 * i},m,5,5,10,l\n" for i in range(9)), "requests/s in s and"),
    ],
)
def test_a_unit_that_cannot_be_told_is_asked_for_in_one_line(tmp_path: Path, text: str, asked: str) -> None:
    message = refused(path := written(tmp_path, text))
    assert len(message.splitlines()) == 1
    assert message.startswith("serving.traffic.trace_time_unit: is required, s or ms:") and asked in message
    slow, fast = (read_trace(path, options=Options(time_unit=unit)).arrival_s for unit in ("s", "ms"))
    assert slow is not None and fast is not None
    np.testing.assert_allclose(slow, 1000 * fast)
    assert refused(path, options=Options(asks="--{}")).startswith("--time-unit: is required")


def test_a_block_size_that_does_not_fit_is_asked_for(tmp_path: Path) -> None:
    records = [{"timestamp": i, "input_length": 40, "output_length": 1, "hash_ids": [0, i, 100 + i]} for i in range(3)]
    message = refused(path := written(tmp_path, lines(records)))
    assert message.startswith("serving.traffic.trace_block_size: is required: 512, this format's, does not fit line 1")
    assert "all lines fit 16" in message and len(message.splitlines()) == 1
    assert read_trace(path, options=Options(block_size=16)).blocks is not None
    message = refused(path, options=Options(block_size=32))
    assert "must be 1 or 2 hash_ids for 40 tokens in blocks of 32" in message and len(message.splitlines()) == 3


def test_formats_that_are_not_known(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1,2\n")
    assert "is in no format that is recognised; say which of aiperf, azure" in refused(path)
    assert "did you mean 'azure'" in refused(path, "azur")
    assert "cannot be read: No such file" in refused(tmp_path / "none.csv")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x80" * 50)
    assert "must be UTF-8 text" in refused(tmp_path / "binary")
    assert "holds no request" in refused(written(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n"))
    only = BURSTGPT.splitlines()[0] + "\n1,m,5,0,5,l\n"
    assert "holds no request: 1 failed" in refused(written(tmp_path, only))


# -- real samples ------------------------------------------------------------------------------------------------------
def sample(name: str) -> Path:
    for folder in Path(__file__).resolve().parents:
        for found in (folder / "shared" / "data" / "traces" / name, folder.parent / "shared/data/traces" / name):
            if found.is_file():
                return found
    pytest.skip(f"{name} is not here")


@pytest.mark.parametrize(
    ("name", "format", "count"),
    [
        ("AzureLLMInferenceTrace_code.csv", "azure", 8819),
        ("AzureLLMInferenceTrace_conv.csv", "azure", 19366),
        ("conversation_trace.jsonl", "mooncake", 12031),
    ],
)
def test_published_samples(name: str, format: str, count: int) -> None:
    trace = read_trace(sample(name))
    assert (trace.format, len(trace), trace.left_out) == (format, count, ())
    assert trace.arrival_s is not None and 3300 < trace.arrival_s[-1] < 3600  # each covers an hour
    assert trace.input_tokens.min() >= 1 and trace.output_tokens.min() >= 1


def test_prefixes_of_a_published_sample() -> None:
    """A cache that forgets nothing would hold a third of the conversation trace's blocks."""
    blocks = read_trace(sample("conversation_trace.jsonl")).blocks
    assert blocks is not None
    known, seen = blocks.known(), set()
    for i in range(len(blocks)):
        ids = blocks[i].tolist()
        expected = next((k for k, one in enumerate(ids) if one not in seen), len(ids))
        assert known[i] == expected
        seen.update(ids)


# -- totals, other load generators, metrics ----------------------------------------------------------------------------
TOTALS = {
    "backend": "vllm",
    "model_id": "m",
    "request_rate": 4.0,
    "max_concurrency": None,
    "duration": 10.0,
    "completed": 3,
    "failed": 1,
    "total_input_tokens": 1000,
    "total_output_tokens": 200,
    "request_throughput": 0.3,
    "output_throughput": 20.0,
    "mean_ttft_ms": 250.0,
    "p99_ttft_ms": 900.0,
    "median_e2el_ms": 1000.0,
}


def test_totals_of_vllm_are_a_load_and_measured_figures(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, json.dumps(TOTALS)))
    assert trace.format == "vllm_bench" and trace.stated == {"rate_per_s": 4.0} and trace.arrival_s is None
    assert trace.input_tokens.sum() == 1000 and trace.output_tokens.sum() == 200 and len(trace) == 3
    assert trace.measured["ttft_mean_s"] == 0.25 and trace.measured["e2e_median_s"] == 1.0
    assert trace.measured["output_tokens_per_s"] == 20.0 and "tpot_mean_s" not in trace.measured
    assert trace.left_out == ((1, "failed"),)
    assert "every request has the mean length" in trace.assumed[0][2]
    requests = generate(TrafficSpec(trace="trace.txt"), folder=tmp_path).requests
    assert len(requests) == 3


def test_totals_of_sglang_are_a_line_a_run(tmp_path: Path) -> None:
    one = TOTALS | {"request_rate": "inf", "max_concurrency": 16, "random_range_ratio": 0.5, "mean_e2e_latency_ms": 5.0}
    trace = read_trace(written(tmp_path, lines([one])))
    assert trace.stated == {"concurrency": 16} and trace.measured["e2e_mean_s"] == 0.005
    assert "random_range_ratio 0.5" in trace.assumed[0][2]
    assert "several runs" in refused(written(tmp_path, lines([one, one])))


def test_totals_that_say_too_little_are_refused(tmp_path: Path) -> None:
    without = {name: value for name, value in TOTALS.items() if name != "completed"}
    assert "completed: is missing" in refused(written(tmp_path, json.dumps(without)))
    assert "input_tokens" in refused(written(tmp_path, json.dumps(TOTALS | {"total_input_tokens": 0})))
    assert "must be at most" in refused(written(tmp_path, json.dumps(TOTALS | {"completed": 10**8})))


def test_totals_of_aiperf_follow_their_percentiles(tmp_path: Path) -> None:
    lengths = {"unit": "tokens", "avg": 300.0, "min": 100, "p50": 300.0, "max": 500}
    totals = {
        "request_throughput": {"unit": "requests/sec", "avg": 5.0},
        "request_count": {"unit": "requests", "avg": 200.0},
        "time_to_first_token": {"unit": "ms", "avg": 40.0, "p99": 80.0},
        "input_sequence_length": lengths,
        "output_sequence_length": {"unit": "tokens", "avg": 64.0},
        "input_config": {"loadgen": {"concurrency": 8}},
    }
    trace = read_trace(written(tmp_path, json.dumps(totals, indent=2)))
    assert trace.format == "aiperf" and len(trace) == 200 and trace.stated == {"concurrency": 8}
    assert abs(trace.input_tokens.mean() - 300) < 5 and trace.input_tokens.min() < 110 < 490 < trace.input_tokens.max()
    assert set(trace.output_tokens.tolist()) == {64}
    assert trace.measured == {"requests_per_s": 5.0, "ttft_mean_s": 0.04, "ttft_p99_s": 0.08}
    unsaid = {name: value for name, value in totals.items() if name != "request_count"}
    assert read_trace(written(tmp_path, json.dumps(unsaid))).assumed[0][0] == "num_requests"


def test_guidellm_reads_one_load_or_the_lengths_of_a_sweep(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, json.dumps(GUIDELLM)))
    assert trace.input_tokens.tolist() == [250, 256] and trace.output_tokens.tolist() == [64, 128]
    assert trace.arrival_s is not None and trace.arrival_s.tolist() == [0.0, 0.5]
    assert trace.ttft_s is not None and trace.ttft_s.tolist() == [0.04, 0.05]
    assert trace.stated == {"rate_per_s": 2.0, "process": "constant"} and trace.left_out == ((1, "failed or cut off"),)
    load = GUIDELLM["benchmarks"][0]
    sweep = GUIDELLM | {"benchmarks": [load, load]}
    trace = read_trace(written(tmp_path, json.dumps(sweep)))
    assert len(trace) == 4 and trace.arrival_s is None and trace.stated == {} and trace.ttft_s is None
    assert "of 2 loads" in trace.assumed[0][1]
    held = load | {"config": {"strategy": {"type_": "concurrent", "streams": 6}}}
    trace = read_trace(written(tmp_path, json.dumps(GUIDELLM | {"benchmarks": [held]})))
    assert trace.stated == {"concurrency": 6} and trace.arrival_s is None


def test_inference_perf_reads_reports_and_requests(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, json.dumps(LIFECYCLE)))
    assert len(trace) == 38 and trace.stated == {"rate_per_s": 4.0} and trace.left_out == ((2, "failed"),)
    assert 190 < trace.input_tokens.mean() < 210 and trace.output_tokens.tolist() == [64] * 38
    assert trace.measured["ttft_p99_s"] == 0.06 and trace.measured["requests_per_s"] == 3.7
    answer = {"output_tokens": 3, "output_token_times": [10.2, 10.3, 10.4]}
    one = {
        "start_time": 10.0,
        "end_time": 10.5,
        "request": "{}",
        "info": {"input_tokens": 7, "response_metrics": answer},
        "error": None,
    }
    broken = one | {"error": {"error_type": "Timeout"}, "start_time": 11.0}
    trace = read_trace(written(tmp_path, json.dumps([one, broken])))
    assert trace.input_tokens.tolist() == [7] and trace.output_tokens.tolist() == [3]
    np.testing.assert_allclose(trace.ttft_s, [0.2])
    np.testing.assert_allclose(trace.e2e_s, [0.5])


def test_openai_batches_are_offline_loads(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, lines(BATCH)))
    assert trace.input_tokens.tolist() == [10, 20] and trace.output_tokens.tolist() == [7, 9]
    assert trace.stated == {"offline": True} and "the most" in trace.assumed[1][2]
    usage = {"prompt_tokens": 11, "completion_tokens": 5}
    done = {"custom_id": "a", "response": {"status_code": 200, "body": {"usage": usage}}, "error": None}
    failed = {"custom_id": "b", "response": None, "error": {"message": "x"}}
    trace = read_trace(written(tmp_path, lines([done, failed])))
    assert trace.input_tokens.tolist() == [11] and trace.output_tokens.tolist() == [5]
    assert trace.left_out == ((1, "failed: no usage in the response"),)


def test_custom_prompts_and_conversations_of_other_names(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, FILES["vllm_custom"][1]))
    assert trace.input_tokens.tolist() == [10, 2] and trace.output_tokens.tolist() == [12, 5]
    turns = [{"role": "user", "content": "q" * 40}, {"role": "assistant", "content": "a" * 80}]
    for name in ("conversation", "messages"):
        trace = read_trace(written(tmp_path, lines([{"conversation_id": "x", name: turns}])))
        assert trace.format == "sharegpt" and trace.input_tokens.tolist() == [10]
        assert trace.output_tokens.tolist() == [20]
    pairs = written(tmp_path, lines([{"prompt": "a", "chosen": "b", "rejected": "c"}]))
    assert claims(pairs) == []


def test_metrics_of_a_server(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path, METRICS))
    assert len(trace) == 10 and trace.measured == {"ttft_mean_s": 0.05}
    assert trace.input_tokens.min() >= 100 and trace.input_tokens.max() <= 200
    assert set(trace.output_tokens.tolist()) == {64} and trace.stated == {}
    other = METRICS.replace('model_name="m"} 640', 'model_name="n"} 640')
    assert "names several models" in refused(written(tmp_path, other))
    unused = METRICS.replace("10.0\n", "0.0\n")
    assert "has no request" in refused(written(tmp_path, unused))
    assert "must be a metric" in refused(written(tmp_path, METRICS + "vllm:x{ 3\n"))
