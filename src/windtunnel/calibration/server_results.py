"""Results of benchmarks of a user's own server as loads that can be simulated, with what each measured.

A file is what `trace:` of a scenario reads (vllm bench, SGLang's bench, aiperf, GuideLLM, inference-perf, Prometheus
…): requests, how they were sent, and figures: totals that the file holds, or figures of the requests that it lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.errors import BadInput, Problem
from windtunnel.importers.traces import Options, RequestTrace, claims, read_trace
from windtunnel.serving.deployment import Deployment, prepare
from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.results.metrics import measures
from windtunnel.serving.simulate import run_requests
from windtunnel.serving.traffic import generate
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.traffic import TrafficSpec

_LATENCY = re.compile(r"(ttft|tpot|e2e)_(mean|median|p\d{2})_s|itl_mean_s")
RATES = ("requests_per_s", "output_tokens_per_s", "total_tokens_per_s")
_STATISTICS = {"mean": None, "median": 50.0, "p90": 90.0, "p99": 99.0}
"""Statistic of listed requests → its percentile."""
_SENDING = ("rate_per_s", "process", "burstiness", "concurrency", "offline")
_TOOLS = "vllm bench, SGLang's bench, aiperf, GuideLLM, inference-perf and Prometheus"
MOST_FILES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoad:
    """One load that a server was under, and what was measured of it."""

    label: str
    deployment: Deployment
    requests: Requests
    """Never served themselves: each simulation serves a copy."""
    figures: dict[str, float]
    """Name (`ttft_mean_s`, `output_tokens_per_s` …) → measured value, SI units."""

    @property
    def closed(self) -> bool:
        """Whether the server's own speed decides when requests are sent: rates follow from latencies then."""
        return bool(self.deployment.concurrency) or self.deployment.serving.traffic.offline


def is_figure(name: str) -> bool:
    """Whether a measured figure has a counterpart in a simulation."""
    return name in RATES or _LATENCY.fullmatch(name) is not None


def read_loads(files: Sequence[Path], scenario: str | Path, overrides: Sequence[str] = ()) -> list[MeasuredLoad]:
    """A load for each file, on the server that a scenario describes.

    Args:
        files: results.
        scenario: with `serving`; its traffic gives what a file does not say about how requests were sent.
        overrides: `key=value` settings of the scenario.

    Raises:
        BadInput: everything wrong with the scenario or the files.
        Infeasible: the model does not fit.
    """
    if len(files) > MOST_FILES:
        raise BadInput(Problem("FILES", f"must be at most {MOST_FILES} results", len(files)))
    deployment = prepare(str(scenario), overrides=tuple(overrides))
    _check(deployment)
    out, problems = [], []
    for file in files:
        try:
            out.append(_load(file, deployment))
        except BadInput as error:
            problems += [replace(p, file=p.file or str(file)) for p in error.problems]
    if problems:
        raise BadInput(problems)
    return out


def _check(d: Deployment) -> None:
    if not isinstance(d.cluster, ClusterSpec):
        raise BadInput(Problem("cluster", "must have one kind of device: a profile is of one"))
    if d.serving.autoscale is not None or d.serving.mesh is not None:
        name = "autoscale" if d.serving.autoscale is not None else "mesh"
        raise BadInput(Problem(f"serving.{name}", "must be left out: loads are fitted on a server of one size"))


def _load(file: Path, deployment: Deployment) -> MeasuredLoad:
    if not file.is_file():
        raise BadInput(Problem("", "must be a file of results", file=str(file)))
    claimed = claims(file)
    if len(claimed) != 1:
        which = f"looks like {' and '.join(claimed)}" if claimed else "is in no format that is recognised"
        raise BadInput(Problem("", f"{which}; results are read of {_TOOLS}", file=str(file)))
    trace = read_trace(file, claimed[0], Options(asks="{}"))
    figures = _figures(trace)
    if not figures:
        rule = "holds no measured TTFT, TPOT, ITL, E2E or throughput of one load"
        raise BadInput(Problem("", rule, trace.format, file=str(file)))
    spec = _traffic(trace, file, deployment.serving.traffic)
    traffic = generate(spec)
    serving = deployment.serving.model_copy(update={"traffic": traffic.spec})
    return MeasuredLoad(
        label=file.name,
        deployment=replace(deployment, serving=serving, concurrency=traffic.concurrency),
        requests=traffic.requests,
        figures=figures,
    )


def _traffic(trace: RequestTrace, file: Path, own: TrafficSpec) -> TrafficSpec:
    """The file's requests, sent as it says; else as the scenario does."""
    sending = {} if trace.arrival_s is not None or trace.stated else {n: getattr(own, n) for n in _SENDING}
    if sending and not any(sending[n] for n in ("rate_per_s", "concurrency", "offline")):
        rule = "or concurrency is required in the scenario: the result does not say how requests were sent"
        raise BadInput(Problem("serving.traffic.rate_per_s", rule, file=str(file)))
    return TrafficSpec(trace=str(file.resolve()), trace_format=trace.format, seed=own.seed, **sending)


def _figures(trace: RequestTrace) -> dict[str, float]:
    out = {name: value for name, value in trace.measured.items() if is_figure(name) and value > 0}
    tokens = trace.output_tokens.astype(np.float64)
    lists: dict[str, Floats | None] = {"ttft": trace.ttft_s, "e2e": trace.e2e_s, "tpot": None}
    if trace.ttft_s is not None and trace.e2e_s is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            lists["tpot"] = np.where(tokens > 1, (trace.e2e_s - trace.ttft_s) / (tokens - 1), np.nan)
    for name, values in lists.items():
        known = np.zeros(0) if values is None else values[np.isfinite(values) & (values > 0)]
        for statistic, at in _STATISTICS.items():
            if len(known):
                out.setdefault(f"{name}_{statistic}_s", _statistic(known, at))
    return out


def simulated(load: MeasuredLoad, deployment: Deployment) -> dict[str, float]:
    """The figures of a load, from its requests on a deployment; NaN where no request was answered."""
    run = run_requests(replace(deployment, concurrency=load.deployment.concurrency), deepcopy(load.requests))
    served, d = run.requests, run.deployment
    m = measures(served, d.iteration.request_s, d.serving.traffic.warmup_requests)
    values = {"ttft": m.ttft_s, "tpot": m.tpot_s, "e2e": m.e2e_s}
    return {name: _figure(name, values, served) for name in load.figures}


def _figure(name: str, values: dict[str, Floats], served: Requests) -> float:
    done = served.state == DONE
    if not done.any():
        return float("nan")
    out = served.output_tokens[done].astype(np.float64)
    if name in RATES:
        span = float(served.finish_s[done].max() - np.nanmin(served.arrival_s))
        prompts = float(served.input_tokens[done].sum())
        amount = {RATES[0]: float(done.sum()), RATES[1]: float(out.sum()), RATES[2]: float(out.sum()) + prompts}
        return amount[name] / span
    kind, _, statistic = name.removesuffix("_s").partition("_")
    if kind == "itl":
        gaps = (values["e2e"] - values["ttft"])[done]
        return float(gaps.sum() / max(np.maximum(out - 1, 0).sum(), 1.0))
    known = values[kind][np.isfinite(values[kind])]
    if not len(known):
        return float("nan")
    return _statistic(known, None if statistic == "mean" else 50.0 if statistic == "median" else float(statistic[1:]))


def _statistic(values: Floats, percentile: float | None) -> float:
    return float(values.mean()) if percentile is None else float(np.percentile(values, percentile))
