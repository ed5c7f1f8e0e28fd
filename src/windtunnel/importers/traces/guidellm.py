"""Reports of GuideLLM (`benchmarks.json`): requests of one load, or lengths of all loads of a sweep.

A benchmark holds `requests.successful`, each with prompt_tokens, output_tokens, request_start_time (start_time before
0.4), time_to_first_token_ms, request_latency (s), and its strategy: constant or poisson (rate), concurrent (streams),
synchronous, throughput.

Source: guidellm/schemas/request_stats.py, guidellm/benchmark/schemas, guidellm/scheduler/strategies.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from windtunnel.errors import BadInput, Problem
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace
from windtunnel.importers.traces.totals import number

_STARTS = ("request_start_time", "start_time")


def _detect(head: Head) -> bool:
    marks = ('"guidellm_version"', '"generative_benchmark"', '"GenerativeBenchmark"', '"generative_text_response"')
    return head.opens("{", "benchmarks") and any(mark in head.text for mark in marks)


def _read(source: Source) -> RequestTrace:
    data = source.document()
    loads = data.get("benchmarks") if isinstance(data, dict) else None
    if not isinstance(loads, list) or not loads:
        raise BadInput(Problem("benchmarks", "must be a list of benchmarks", file=str(source.path)))
    rows: list[tuple[int, int, float, float]] = []
    starts: list[float] = []
    failed = 0
    for at, load in enumerate(loads):
        requests = load.get("requests") if isinstance(load, dict) else None
        done = requests.get("successful") if isinstance(requests, dict) else None
        if not isinstance(requests, dict) or not isinstance(done, list):
            source.bad(None, f"benchmarks.{at}.requests.successful", "must be a list of requests", done)
            continue
        failed += sum(len(list(requests.get(kind) or ())) for kind in ("errored", "incomplete"))
        for i, one in enumerate(done):
            place = f"benchmarks.{at}.requests.successful.{i}"
            if not isinstance(one, dict):
                source.bad(None, place, "must be an object", one)
                continue
            inputs = source.count(None, f"{place}.prompt_tokens", one.get("prompt_tokens"), 1)
            outputs = source.count(None, f"{place}.output_tokens", one.get("output_tokens"), 1)
            rows.append((inputs, outputs, number(one.get("time_to_first_token_ms")) / 1e3, _latency(one)))
            starts.append(next((number(one[name]) for name in _STARTS if name in one), math.nan))
    source.check()
    source.drop(failed, "failed or cut off")
    table = np.array(rows, np.float64).reshape(-1, 4)
    stated = _stated(loads[0]) if len(loads) == 1 else {}
    times = np.array(starts)
    known = len(loads) == 1 and "rate_per_s" in stated and len(times) > 0 and bool(np.isfinite(times).all())
    order = np.argsort(times, kind="stable") if known else np.arange(len(table))
    if len(loads) > 1:
        why = "lengths of all loads of a sweep; their latencies are of different loads: set rate_per_s or concurrency"
        source.assumed.append(("requests", f"of {len(loads)} loads", why))
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=table[order, 0].astype(np.int32),
        output_tokens=table[order, 1].astype(np.int32),
        arrival_s=times[order] - times[order[0]] if known else None,
        ttft_s=table[order, 2] if len(loads) == 1 else None,
        e2e_s=table[order, 3] if len(loads) == 1 else None,
        stated=stated,
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )


def _latency(one: dict[str, Any]) -> float:
    return number(one.get("request_latency"))


def _stated(load: dict[str, Any]) -> dict[str, Any]:
    """The strategy of a load in the words of `traffic`."""
    for strategy in _strategies(load):
        kind = strategy.get("type_") or strategy.get("kind")
        rate, streams = number(strategy.get("rate")), strategy.get("streams")
        if kind in ("constant", "poisson") and not math.isnan(rate):
            return {"rate_per_s": rate} | ({"process": "constant"} if kind == "constant" else {})
        if kind == "concurrent" and type(streams) is int and streams > 0:
            return {"concurrency": streams}
        if kind == "synchronous":
            return {"concurrency": 1}
        if kind == "throughput":
            held = strategy.get("max_concurrency")
            return {"concurrency": held} if type(held) is int and held > 0 else {"offline": True}
    return {}


def _strategies(load: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for where in ("config", "args", "scheduler"):
        place = load.get(where)
        if isinstance(place, dict) and isinstance(place.get("strategy"), dict):
            yield place["strategy"]


TRACES.add("guidellm", TraceFormat("a report of GuideLLM (JSON)", _detect, _read))
