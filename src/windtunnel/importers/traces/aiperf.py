"""Files of aiperf and genai-perf: records of requests, profile exports of perf_analyzer, and inputs.json.

* `profile_export.jsonl` (aiperf): a line a request, metadata with request_start_ns, metrics with lengths and times.
* `profile_export.json` (genai-perf, perf_analyzer): experiments with requests, nanoseconds, payloads as text.
* `inputs.json` (both): payloads alone; no times.
* `profile_export_aiperf.json`, `profile_export_genai_perf.json`: means and percentiles alone; lengths follow them.

aiperf's own traces for replay are Mooncake lines (`mooncake`).

Source: aiperf, docs/tutorials/working-with-profile-exports.md; perf_analyzer, docs of the profile export.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, Problem
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.order import by_arrival
from windtunnel.importers.traces.payloads import answered, output_cap, prompt_text
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace
from windtunnel.importers.traces.totals import Lengths, number, of_totals, requests_of

_NS = 1e-9
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}


def _detect(head: Head) -> bool:
    records = {"metadata", "metrics"} <= head.record.keys()
    inputs = head.opens("{", "data") and ('"payload"' in head.text or '"payloads"' in head.text)
    totals = head.opens("{", "request_throughput", "output_sequence_length")
    return records or inputs or totals or head.opens("{", "experiments", "requests")


def _read(source: Source) -> RequestTrace:
    with source.open() as stream:
        head = Head(stream.read(1 << 16))
    if {"metadata", "metrics"} <= head.record.keys():
        return _records(source)
    data = source.document()
    if isinstance(data, dict) and isinstance(data.get("experiments"), list):
        return _experiments(source, data["experiments"])
    if isinstance(data, dict) and isinstance(data.get("data"), list):
        return _inputs(source, data["data"])
    if isinstance(data, dict):
        return _totals(source, data)
    raise BadInput(Problem("", "must be a JSON object", file=str(source.path)))


# -- profile_export.jsonl ----------------------------------------------------------------------------------------------
def _records(source: Source) -> RequestTrace:
    rows: list[tuple[float, int, int, float, float]] = []
    names: dict[Any, int] = {}
    session = []
    failed = warm = 0
    for line, data in source.records():
        about, metrics = data.get("metadata"), data.get("metrics")
        if not isinstance(about, dict):
            source.bad(line, "metadata", "must be an object", about)
            continue
        if data.get("error") or about.get("was_cancelled") or not isinstance(metrics, dict):
            failed += 1
            continue
        if about.get("benchmark_phase") == "warmup":
            warm += 1
            continue
        start = source.number(line, "metadata.request_start_ns", about.get("request_start_ns"))
        inputs = source.count(line, "metrics.input_sequence_length", _value(metrics, "input_sequence_length"), 1)
        outputs = source.count(line, "metrics.output_sequence_length", _value(metrics, "output_sequence_length"), 1)
        ttft, e2e = (_time(source, line, metrics, name) for name in ("time_to_first_token", "request_latency"))
        rows.append((start, inputs, outputs, ttft, e2e))
        name = source.name(line, "metadata.x_correlation_id", about.get("x_correlation_id"))
        session.append(names.setdefault(("alone", line) if name is None else name, len(names)))
    source.check()
    source.drop(failed, "failed or cancelled")
    source.drop(warm, "of the benchmark's warm-up")
    table = np.array(rows, np.float64).reshape(-1, 5)
    why = "as recorded; if the run held a concurrency, set concurrency: the times follow from the server measured"
    source.assumed.append(("arrival_s", "request_start_ns", why))
    # nanoseconds since 1970 exceed what a float64 holds exactly: 256 ns are lost, far below what a replay resolves
    since = (table[:, 0] - table[:, 0].min(initial=np.inf)) * _NS if len(table) else table[:, 0]
    return by_arrival(
        source,
        since,
        table[:, 1].astype(np.int64),
        table[:, 2].astype(np.int64),
        session=np.array(session, np.int64),
        ttft_s=table[:, 3],
        e2e_s=table[:, 4],
    )


def _value(metrics: dict[str, Any], name: str) -> Any:
    found = metrics.get(name)
    return found.get("value") if isinstance(found, dict) else found


def _time(source: Source, line: int, metrics: dict[str, Any], name: str) -> float:
    found = metrics.get(name)
    if not isinstance(found, dict):
        return float("nan")
    unit = found.get("unit", "ms")
    if not isinstance(unit, str) or unit not in _UNITS_S:
        source.bad(line, f"metrics.{name}.unit", f"must be one of {', '.join(_UNITS_S)}", unit)
        return float("nan")
    return source.number(line, f"metrics.{name}.value", found.get("value")) * _UNITS_S[unit]


# -- profile_export.json -----------------------------------------------------------------------------------------------
def _experiments(source: Source, experiments: list[Any]) -> RequestTrace:
    if len(experiments) != 1:
        rule = "must be one; files of several loads mix their arrivals: export one each"
        raise BadInput(Problem("experiments", rule, f"{len(experiments)} of them", file=str(source.path)))
    requests = experiments[0].get("requests") if isinstance(experiments[0], dict) else None
    if not isinstance(requests, list):
        raise BadInput(Problem("experiments.0.requests", "must be a list", file=str(source.path)))
    rows: list[tuple[float, int, int, float, float]] = []
    failed = 0
    counted = False
    for i, request in enumerate(requests):
        field = f"experiments.0.requests.{i}"
        if not isinstance(request, dict):
            source.bad(None, field, "must be an object", request)
            continue
        ends = request.get("response_timestamps")
        if request.get("success") is False or not ends or not isinstance(ends, list):
            failed += 1
            continue
        text = prompt_text(request.get("request_inputs"))
        if text is None:
            source.bad(None, f"{field}.request_inputs", "must hold a prompt: messages, prompt or text_input")
            text = ""
        answer = answered(request.get("response_outputs"))
        counted |= answer.prompt_tokens is None
        start = source.number(None, f"{field}.timestamp", request.get("timestamp"))
        times = [source.number(None, f"{field}.response_timestamps.{k}", end) for k, end in enumerate(ends)]
        rows.append(
            (
                start,
                answer.prompt_tokens or source.tokens(text),
                answer.tokens or len(ends),
                (times[0] - start) * _NS,
                (times[-1] - start) * _NS,
            )
        )
    source.check()
    source.drop(failed, "without a response")
    if counted:
        source.assume_characters()
        source.assumed.append(("output_tokens", "one a response", "responses are streamed token by token"))
    table = np.array(rows, np.float64).reshape(-1, 5)
    load = experiments[0].get("experiment")
    concurrency = load.get("value") if isinstance(load, dict) and load.get("mode") == "concurrency" else None
    trace = by_arrival(
        source,
        table[:, 0] * _NS,
        table[:, 1].astype(np.int64),
        table[:, 2].astype(np.int64),
        ttft_s=table[:, 3],
        e2e_s=table[:, 4],
    )
    # a closed loop's times follow from the server that was measured: the concurrency is what is kept
    return replace(trace, arrival_s=None, stated={"concurrency": concurrency}) if concurrency else trace


# -- inputs.json -------------------------------------------------------------------------------------------------------
def _inputs(source: Source, data: list[Any]) -> RequestTrace:
    inputs, outputs, session = [], [], []
    for i, item in enumerate(data):
        payloads = (item.get("payloads") or item.get("payload")) if isinstance(item, dict) else None
        for k, payload in enumerate(payloads if isinstance(payloads, list) else [payloads]):
            text = prompt_text(payload)
            if text is None:
                source.bad(None, f"data.{i}.payloads.{k}", "must hold a prompt: messages, prompt or text_input")
                continue
            inputs.append(source.tokens(text))
            outputs.append(source.count(None, f"data.{i}.payloads.{k}.max_tokens", output_cap(payload) or 0))
            session.append(i)
    source.check()
    source.assume_characters()
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=np.array(inputs, np.int32),
        output_tokens=np.array(outputs, np.int32),
        session=np.array(session, np.int64),
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )


# -- totals ------------------------------------------------------------------------------------------------------------
_MEASURED = {
    "ttft": "time_to_first_token",
    "itl": "inter_token_latency",
    "e2e": "request_latency",
}
_RATES = {"requests_per_s": "request_throughput", "output_tokens_per_s": "output_token_throughput"}
_STATISTICS = {"mean": "avg", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_QUANTILES = {"min": 0.0, "max": 1.0} | {f"p{at}": at / 100 for at in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
_UNSAID = 1000


def _totals(source: Source, data: dict[str, Any]) -> RequestTrace:
    count = _statistic(data, "request_count", "avg")
    if math.isnan(count):
        requests = _UNSAID
        source.assumed.append(("num_requests", _UNSAID, "the file does not say how many requests were sent"))
    else:
        requests = requests_of(source, "request_count.avg", round(count))
    errors = _statistic(data, "error_request_count", "avg")
    source.drop(0 if math.isnan(errors) else round(errors), "failed")
    measured = {name: _statistic(data, key, "avg") for name, key in _RATES.items()}
    for name, key in _MEASURED.items():
        entry = data.get(key)
        unit = _UNITS_S.get(str(entry.get("unit", "ms"))) if isinstance(entry, dict) else 1.0
        for statistic, field in _STATISTICS.items():
            measured[f"{name}_{statistic}_s"] = math.nan if unit is None else _statistic(data, key, field) * unit
    return of_totals(
        source,
        requests,
        _lengths(data, "input_sequence_length"),
        _lengths(data, "output_sequence_length"),
        stated=_load(data.get("input_config")),
        measured=measured,
    )


def _statistic(data: dict[str, Any], key: str, statistic: str) -> float:
    entry = data.get(key)
    return number(entry.get(statistic)) if isinstance(entry, dict) else math.nan


def _lengths(data: dict[str, Any], key: str) -> Lengths:
    found = {share: _statistic(data, key, name) for name, share in _QUANTILES.items()}
    found = {share: value for share, value in found.items() if not math.isnan(value)}
    return Lengths(_statistic(data, key, "avg"), found if {0.0, 0.5, 1.0} <= found.keys() else None)


def _load(config: Any) -> dict[str, Any]:
    """Rate or concurrency of a run, wherever its settings keep it."""
    if not isinstance(config, dict):
        return {}
    for place in (config, config.get("loadgen"), config.get("stimulus"), config.get("perf_analyzer")):
        if not isinstance(place, dict):
            continue
        if isinstance(place.get("stimulus"), dict):
            place = place["stimulus"]
        rate, concurrency = number(place.get("request_rate")), place.get("concurrency")
        if not math.isnan(rate):
            return {"rate_per_s": rate}
        if type(concurrency) is int and concurrency > 0:
            return {"concurrency": concurrency}
    return {}


TRACES.add("aiperf", TraceFormat("records, exports, inputs or totals of aiperf and genai-perf (JSON)", _detect, _read))
