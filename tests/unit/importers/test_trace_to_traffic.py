"""`windtunnel import TRACE`: laws fitted to it, and the section that is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from request_traces import BENCH, BURSTGPT, FILES, SHAREGPT

from windtunnel.cli.main import run
from windtunnel.importers.traces import read_trace
from windtunnel.serving.traffic import generate
from windtunnel.serving.traffic.fit_distributions import fit, fit_arrivals, fit_lengths, rank_correlation
from windtunnel.specs.lengths import Lengths
from windtunnel.specs.traffic import TrafficSpec


def recorded(folder: Path, spec: TrafficSpec) -> Path:
    """Drawn traffic as an Azure trace."""
    requests = generate(spec).requests
    start = np.datetime64("2024-01-01T00:00:00", "ns")
    stamps = start + (requests.arrival_s * 1e9).astype("timedelta64[ns]")
    rows = zip(stamps, requests.input_tokens, requests.output_tokens, strict=True)
    path = folder / "drawn.csv"
    text = "".join(f"{str(t).replace('T', ' ')},{i},{o}\n" for t, i, o in rows)
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + text, encoding="utf-8")
    return path


def uncommented(text: str) -> dict[str, Any]:
    """What the section says once the laws take the place of the file."""
    body = text.partition("  traffic:\n")[2]
    laws = body.partition("before these.\n")[2]
    fields: dict[str, Any] = yaml.safe_load("".join(line.replace("    # ", "", 1) + "\n" for line in laws.splitlines()))
    return fields


def test_laws_come_back_from_what_they_drew(tmp_path: Path) -> None:
    spec = TrafficSpec(
        rate_per_s=12,
        process="gamma",
        burstiness=0.4,
        num_requests=20_000,
        correlation=0.5,
        input_tokens=Lengths(distribution="lognormal", mean=2000, cv=0.9),
        output_tokens=Lengths(distribution="gamma", mean=300, cv=0.6),
    )
    fitted = fit(read_trace(recorded(tmp_path, spec)))
    assert fitted.arrivals is not None and fitted.arrivals.process == "gamma"
    assert fitted.arrivals.rate_per_s == pytest.approx(12, rel=0.05)
    assert fitted.arrivals.burstiness == pytest.approx(0.4, rel=0.05)
    assert fitted.input_tokens.law["distribution"] == "lognormal" and fitted.input_tokens.distance < 0.02
    assert fitted.input_tokens.law["mean"] == pytest.approx(2000, rel=0.03)
    assert fitted.input_tokens.law["cv"] == pytest.approx(0.9, rel=0.05)
    assert fitted.output_tokens is not None and fitted.output_tokens.law["distribution"] == "gamma"
    assert fitted.output_tokens.law["cv"] == pytest.approx(0.6, rel=0.03)
    assert fitted.correlation == pytest.approx(0.5, abs=0.02)


def test_processes_are_told_apart() -> None:
    def process(**given: Any) -> str:
        spec = TrafficSpec(rate_per_s=5, num_requests=5000, input_tokens=1, output_tokens=1, **given)
        found = fit_arrivals(generate(spec).requests.arrival_s, 5000)
        assert found is not None
        return found.process

    assert process() == "poisson"
    assert process(process="constant") == "constant"
    assert process(process="gamma", burstiness=3) == "gamma"


def test_a_coarse_clock_is_read_by_counts() -> None:
    spec = TrafficSpec(
        rate_per_s=5, process="gamma", burstiness=0.5, num_requests=40_000, input_tokens=1, output_tokens=1
    )
    found = fit_arrivals(np.floor(generate(spec).requests.arrival_s / 3) * 3, 40_000)
    assert found is not None and found.window_s > 0
    assert found.burstiness == pytest.approx(0.5, rel=0.2)


def test_a_daily_swing_is_seen() -> None:
    spec = TrafficSpec(
        rate_per_s=0.1, process="diurnal", peak_to_mean=1.7, duration_s=4 * 86400, input_tokens=1, output_tokens=1
    )
    times = generate(spec).requests.arrival_s
    found = fit_arrivals(times, len(times))
    assert found is not None and found.daily_swing == pytest.approx(0.7, abs=0.03)


def test_rank_correlation_shares_ranks_among_equals() -> None:
    ints = np.array([1, 1, 2, 3], np.int32)
    assert rank_correlation(ints, ints) == pytest.approx(1)
    assert rank_correlation(ints, ints[::-1].copy()) == pytest.approx(-0.9, abs=0.15)
    assert rank_correlation(ints, np.full(4, 7, np.int32)) == 0


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 10**5), min_size=1, max_size=40))
def test_every_set_of_lengths_has_a_law(values: list[int]) -> None:
    fitted = fit_lengths(np.array(values, np.int32))
    assert Lengths(**fitted.law)
    assert 0 <= fitted.distance <= 1 and fitted.mean == pytest.approx(np.mean(values))


def test_two_humps_are_given_as_quantiles() -> None:
    values = np.concatenate((np.full(500, 10), np.arange(5000, 5500))).astype(np.int32)
    fitted = fit_lengths(values)
    assert fitted.law["distribution"] == "empirical" and fitted.distance < 0.03
    assert fitted.rejected is not None and fitted.rejected[1] > 0.1


@pytest.mark.parametrize("format", FILES)
def test_each_format_becomes_a_section_that_loads(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name, text = FILES[format]
    Path(name).write_text(text, encoding="utf-8")
    assert run(["import", name, "-o", "traffic.yaml"]) == 0
    written = Path("traffic.yaml").read_text("utf-8")
    spec = TrafficSpec(**yaml.safe_load(written)["serving"]["traffic"])
    assert spec.trace == name and spec.trace_format == format
    requests = generate(spec, folder=tmp_path).requests
    drawn = TrafficSpec(**uncommented(written))
    assert drawn.trace is None and len(generate(drawn).requests) == len(requests)
    capsys.readouterr()
    assert run(["import", name, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["format"] == format and data["requests"] == len(requests)
    assert data["serving"]["traffic"]["trace"] == name and data["fitted"]["num_requests"] == len(requests)


def test_the_file_is_named_from_where_the_section_goes(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "scenarios").mkdir()
    trace = tmp_path / "traces" / "b.csv"
    trace.write_text(BURSTGPT, encoding="utf-8")
    out = tmp_path / "scenarios" / "t.yaml"
    assert run(["import", str(trace), "-o", str(out)]) == 0
    fields = yaml.safe_load(out.read_text("utf-8"))["serving"]["traffic"]
    assert fields["trace"] == "../traces/b.csv"
    assert len(generate(TrafficSpec(**fields), folder=out.parent).requests) == 3
    assert run(["import", str(trace), "-o", str(out)]) == 2  # exists


def test_what_was_left_out_or_assumed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "b.csv").write_text(BURSTGPT, encoding="utf-8")
    assert run(["import", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "left out: 1 failed" in err and "# left out: 1 failed" in out
    (path := tmp_path / "s.json").write_text(json.dumps(SHAREGPT), encoding="utf-8")
    assert run(["import", str(path), "--characters-per-token", "3"]) == 0
    out, err = capsys.readouterr()
    assert "assumed --characters-per-token = 3.0" in err
    assert "trace_characters_per_token: 3.0" in out and "has no arrival times: set rate_per_s" in out
    (path := tmp_path / "v.json").write_text(json.dumps(BENCH), encoding="utf-8")
    assert run(["import", str(path)]) == 0
    assert "\n    concurrency: 2\n" in capsys.readouterr().out


def test_bad_input_of_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path := tmp_path / "b.csv").write_text(BURSTGPT, encoding="utf-8")
    (other := tmp_path / "o.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (config := tmp_path / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    (numbers := tmp_path / "n.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n1,2,3\n2,x,3\n", encoding="utf-8"
    )
    for words, said in (
        (["import", str(path), "--time-unit", "min"], "--time-unit = min: must be s or ms"),
        (["import", str(path), "--device", "h100-sxm-80gb"], "is a trace, which takes --time-unit"),
        (["import", str(config), "--block-size", "4"], "is no trace; --time-unit"),
        (["import", str(other)], "--format: is in no format that is recognised; say which of aiperf"),
        (["import", str(path), "--format", "azur"], "must be one of hf, "),
        (["import", str(numbers)], "--time-unit: is required, s or ms: TIMESTAMP holds plain numbers"),
        (["import", str(numbers), "--time-unit", "s"], "ContextTokens = x: must be a whole number"),
        (["import", str(tmp_path / "none.csv")], "no such file"),
    ):
        assert run(words) == 2, words
        err = capsys.readouterr().err
        assert said.casefold() in err.casefold() and "Traceback" not in err, err
