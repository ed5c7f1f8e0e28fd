"""Results of `vllm bench serve --save-result` and SGLang's `bench_serving`: one JSON object, totals or lists too.

With --save-detailed or --output-details: `input_lens`, `output_lens` (0: failed), and where saved `ttfts`, `itls`,
`latencies` in seconds and `start_times` (seconds of one clock); `request_rate` ("inf": all at once), `burstiness`,
`max_concurrency`.

Totals alone (`completed`, `total_input_tokens`, `total_output_tokens`, latencies in ms) give requests of the mean
length. A line a run, as SGLang appends them: one run is read.

Where a run kept `max_concurrency` in flight and no rate, its start times follow from the speed of the server that was
measured: the concurrency is what is kept, not the times.

Source: vllm/benchmarks/serve.py; sglang/bench_serving.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput, Problem
from windtunnel.files.parsing import json_of
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.reading import MAX_TOKENS, Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace
from windtunnel.importers.traces.totals import Lengths, number, of_totals, requests_of

_TOTALS = ("total_input_tokens", "request_throughput")
_LATENCIES = {"ttft": ("ttft",), "tpot": ("tpot",), "itl": ("itl",), "e2e": ("e2el", "e2e_latency")}
_STATISTICS = ("mean", "median", "p90", "p95", "p99")
_RATES = {
    "requests_per_s": ("request_throughput",),
    "input_tokens_per_s": ("input_throughput",),
    "output_tokens_per_s": ("output_throughput",),
    "total_tokens_per_s": ("total_token_throughput", "total_throughput"),
}


def _detect(head: Head) -> bool:
    return head.opens("{", "input_lens", "output_lens") or head.opens("{", *_TOTALS)


def _read(source: Source) -> RequestTrace:
    data = _run(source)
    if "input_lens" not in data or "output_lens" not in data:
        return _totals(source, data)
    inputs = _counts(source, data, "input_lens", 1)
    outputs = _counts(source, data, "output_lens", 0)
    lists = {name: data[name] for name in ("ttfts", "itls", "latencies", "start_times") if data.get(name)}
    for name, values in {"output_lens": list(outputs), **lists}.items():
        if not isinstance(values, list):
            source.bad(None, name, "must be a list", values)
        elif len(values) != len(inputs):
            source.bad(None, name, f"must have {len(inputs)} entries, as input_lens has", f"{len(values)} of them")
    source.check()
    ttft = _seconds(source, lists["ttfts"], "ttfts") if "ttfts" in lists else None
    e2e = _seconds(source, lists["latencies"], "latencies") if "latencies" in lists else None
    if e2e is None and ttft is not None and "itls" in lists:
        e2e = ttft + _sums(source, lists["itls"])
    stated = _stated(data)
    starts = None
    if "start_times" in lists and "concurrency" not in stated:
        starts = _seconds(source, lists["start_times"], "start_times")
    source.check()
    served = outputs > 0
    source.drop(int(len(served) - served.sum()), "failed: no output tokens")
    order = np.flatnonzero(served)
    if starts is not None:
        order = order[np.argsort(starts[order], kind="stable")]
    return RequestTrace(
        file=str(source.path),
        format=source.format,
        input_tokens=inputs[order].astype(np.int32),
        output_tokens=outputs[order].astype(np.int32),
        arrival_s=None if starts is None else starts[order] - starts[order[:1]],
        ttft_s=None if ttft is None else ttft[order],
        e2e_s=None if e2e is None else e2e[order],
        stated=stated,
        measured=_measured(data),
        assumed=tuple(source.assumed),
        left_out=tuple(source.left_out),
    )


def _run(source: Source) -> dict[str, Any]:
    """The one result of a file."""
    with source.open() as stream:
        text = stream.read()
    try:
        data = json_of(text)
    except ValueError:
        runs = [run for _, run in source.records()]
        source.check()
        if len(runs) != 1:
            rule = "holds results of several runs, a line each: leave the line of the one that is meant"
            raise BadInput(Problem("", rule, f"{len(runs)} of them", file=str(source.path))) from None
        data = runs[0]
    if not isinstance(data, dict):
        raise BadInput(Problem("", "must be a JSON object", file=str(source.path)))
    return data


def _totals(source: Source, data: dict[str, Any]) -> RequestTrace:
    requests = requests_of(source, "completed", data.get("completed"))
    failed = data.get("failed")
    source.drop(failed if type(failed) is int and failed > 0 else 0, "failed")
    ratio = data.get("random_range_ratio")
    drawn = f" (the run drew them: random_range_ratio {ratio:g})" if isinstance(ratio, int | float) else ""
    return of_totals(
        source,
        requests,
        Lengths(number(data.get("total_input_tokens")) / requests),
        Lengths(number(data.get("total_output_tokens")) / requests),
        stated=_stated(data),
        measured=_measured(data),
        drawn=drawn,
    )


def _measured(data: dict[str, Any]) -> dict[str, float]:
    """What the run measured, SI units."""
    found = {"duration_s": number(data.get("duration"))}
    for name, keys in _RATES.items():
        found[name] = next((number(data[key]) for key in keys if key in data), math.nan)
    for name, keys in _LATENCIES.items():
        for statistic in _STATISTICS:
            values = (number(data.get(f"{statistic}_{key}_ms")) for key in keys)
            found[f"{name}_{statistic}_s"] = next((v / 1000 for v in values if math.isfinite(v)), math.nan)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _counts(source: Source, data: dict[str, Any], name: str, least: int) -> Any:
    if not isinstance(data[name], list):
        source.bad(None, name, "must be a list of whole numbers", data[name])
        return np.zeros(0, np.int64)
    return np.array([source.count(None, f"{name}.{i}", v, least) for i, v in enumerate(data[name])], np.int64)


def _seconds(source: Source, values: list[Any], name: str) -> Floats:
    return np.array([source.number(None, f"{name}.{i}", value) for i, value in enumerate(values)])


def _sums(source: Source, itls: list[Any]) -> Floats:
    """Seconds from the first token to the last."""
    sums = np.zeros(len(itls))
    for i, gaps in enumerate(itls):
        if isinstance(gaps, list):
            sums[i] = math.fsum(source.number(None, f"itls.{i}.{k}", gap) for k, gap in enumerate(gaps))
        else:
            source.bad(None, f"itls.{i}", "must be a list of seconds", gaps)
    return sums


def _stated(data: dict[str, Any]) -> dict[str, Any]:
    """How the benchmark sent its requests, in the words of `traffic`."""
    try:
        rate = float(data.get("request_rate", "nan"))
    except (TypeError, ValueError):
        rate = math.nan
    concurrency, burstiness = data.get("max_concurrency"), data.get("burstiness")
    if math.isfinite(rate) and rate > 0:
        known = isinstance(burstiness, int | float) and math.isfinite(burstiness) and burstiness > 0
        shape = {"process": "gamma", "burstiness": burstiness} if known and burstiness != 1 else {}
        return {"rate_per_s": rate} | shape
    if type(concurrency) is int and 0 < concurrency <= MAX_TOKENS:
        return {"concurrency": concurrency}
    return {"offline": True} if rate == math.inf else {}


TRACES.add("vllm_bench", TraceFormat("results of vllm bench serve or SGLang's bench_serving (JSON)", _detect, _read))
