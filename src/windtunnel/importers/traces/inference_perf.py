"""Reports of inference-perf: `per_request_lifecycle_metrics.json`, and means with percentiles of a stage or a run.

* per request: a list of {start_time, end_time, info: {input_tokens, response_metrics: {output_tokens,
  output_token_times}}, error}; seconds of one clock.
* stage or summary: `load_summary` (requested_rate, concurrency), `successes` with latency, prompt_len, output_len.

Source: inference_perf/reportgen/base.py; docs/reports.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, Problem
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.order import by_arrival
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace
from windtunnel.importers.traces.totals import Lengths, number, of_totals, requests_of

_QUANTILES = {"min": 0.0, "max": 1.0, "median": 0.5} | {f"p{at}": at / 100 for at in (1, 5, 10, 25, 75, 90, 95, 99)}
_LATENCIES = {
    "ttft": "time_to_first_token",
    "tpot": "time_per_output_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}
_STATISTICS = ("mean", "median", "p90", "p95", "p99")
_RATES = {
    "requests_per_s": "requests_per_sec",
    "input_tokens_per_s": "input_tokens_per_sec",
    "output_tokens_per_s": "output_tokens_per_sec",
    "total_tokens_per_s": "total_tokens_per_sec",
}


def _detect(head: Head) -> bool:
    return head.opens("{", "load_summary", "successes") or head.opens("[", "start_time", "end_time", "info", "error")


def _read(source: Source) -> RequestTrace:
    data = source.document()
    if isinstance(data, list):
        return _requests(source, data)
    if isinstance(data, dict) and isinstance(data.get("successes"), dict):
        return _report(source, data)
    raise BadInput(Problem("successes", "must be an object", file=str(source.path)))


def _requests(source: Source, data: list[Any]) -> RequestTrace:
    rows: list[tuple[float, int, int, float, float]] = []
    failed = 0
    for i, one in enumerate(data):
        if not isinstance(one, dict) or not isinstance(one.get("info"), dict):
            source.bad(None, f"{i}", "must be an object with info", one)
            continue
        if one.get("error"):
            failed += 1
            continue
        info = one["info"]
        answer = info.get("response_metrics")
        answer = info if not isinstance(answer, dict) else answer
        start = source.number(None, f"{i}.start_time", one.get("start_time"))
        end = source.number(None, f"{i}.end_time", one.get("end_time"))
        times = answer.get("output_token_times")
        first = source.number(None, f"{i}.output_token_times.0", times[0]) - start if times else math.nan
        inputs = source.count(None, f"{i}.info.input_tokens", info.get("input_tokens"), 1)
        outputs = source.count(None, f"{i}.info.output_tokens", answer.get("output_tokens"), 0)
        if not outputs:
            failed += 1
            continue
        rows.append((start, inputs, outputs, first, end - start))
    source.check()
    source.drop(failed, "failed or without an answer")
    table = np.array(rows, np.float64).reshape(-1, 5)
    why = "as recorded; if the run held a concurrency, set concurrency: the times follow from the server measured"
    source.assumed.append(("arrival_s", "start_time", why))
    return by_arrival(
        source,
        table[:, 0],
        table[:, 1].astype(np.int64),
        table[:, 2].astype(np.int64),
        ttft_s=table[:, 3],
        e2e_s=table[:, 4],
    )


def _part(data: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of a report; empty where it is missing or something else."""
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _report(source: Source, data: dict[str, Any]) -> RequestTrace:
    good, load, bad = data["successes"], _part(data, "load_summary"), _part(data, "failures")
    requests = requests_of(source, "successes.count", good.get("count"))
    failed = bad.get("count")
    source.drop(failed if type(failed) is int else 0, "failed")
    throughput = _part(good, "throughput") or {"requests_per_sec": good.get("rate")}
    latency = _part(good, "latency") or good
    measured = {name: number(throughput.get(key)) for name, key in _RATES.items()}
    for name, key in _LATENCIES.items():
        entry = _part(latency, key)
        measured |= {f"{name}_{statistic}_s": number(entry.get(statistic)) for statistic in _STATISTICS}
    return of_totals(
        source,
        requests,
        _lengths(good, "prompt_len", "prompt_tokens"),
        _lengths(good, "output_len", "output_tokens"),
        stated=_load(load),
        measured=measured,
    )


def _lengths(good: dict[str, Any], *names: str) -> Lengths:
    entry: dict[str, Any] = next((good[name] for name in names if isinstance(good.get(name), dict)), {})
    found = {share: number(entry.get(name)) for name, share in _QUANTILES.items()}
    found = {share: value for share, value in found.items() if not math.isnan(value)}
    return Lengths(number(entry.get("mean")), found if {0.0, 0.5, 1.0} <= found.keys() else None)


def _load(summary: dict[str, Any]) -> dict[str, Any]:
    held = summary.get("concurrency", summary.get("concurrency_level"))
    if type(held) is int and held > 0:
        return {"concurrency": held}
    rate = number(summary.get("requested_rate"))
    return {} if math.isnan(rate) else {"rate_per_s": rate}


TRACES.add("inference_perf", TraceFormat("reports of inference-perf (JSON)", _detect, _read))
