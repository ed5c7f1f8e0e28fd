"""What a server's `/metrics` says of its requests (Prometheus text): vLLM, SGLang, TGI.

Histograms of prompt and answer tokens give lengths, counters and histograms of latencies what was measured; all since
the server was started. Of several engines (data-parallel) the sum is taken; of several models, the file is refused.

Source: the metrics of vLLM (vllm:*), SGLang (sglang:*) and TGI (tgi_*).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict

from windtunnel.errors import BadInput, Problem
from windtunnel.importers.traces import TRACES
from windtunnel.importers.traces.reading import Head, Source, TraceFormat
from windtunnel.importers.traces.record import RequestTrace
from windtunnel.importers.traces.totals import Lengths, of_totals, requests_of

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SERVERS = ("vllm:", "sglang:", "sglang_", "tgi_")
_INPUTS = ("vllm:request_prompt_tokens", "sglang:prompt_tokens_histogram", "tgi_request_input_length")
_OUTPUTS = ("vllm:request_generation_tokens", "sglang:generation_tokens_histogram", "tgi_request_generated_tokens")
_COUNTS = ("vllm:request_success_total", "sglang:num_requests_total", "tgi_request_success")
_TOTALS = (
    ("vllm:prompt_tokens_total", "sglang:prompt_tokens_total"),
    ("vllm:generation_tokens_total", "sglang:generation_tokens_total"),
)
_LATENCIES = {
    "ttft": ("vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"),
    "tpot": (
        "vllm:request_time_per_output_token_seconds",
        "vllm:time_per_output_token_seconds",
        "sglang:time_per_output_token_seconds",
        "tgi_request_mean_time_per_token_duration",
    ),
    "itl": ("vllm:inter_token_latency_seconds", "sglang:inter_token_latency_seconds"),
    "e2e": ("vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds", "tgi_request_duration"),
}


def _detect(head: Head) -> bool:
    return any(line.lstrip("# ").removeprefix("TYPE ").startswith(_SERVERS) for line in head.text.splitlines()) and (
        "# TYPE " in head.text or "# HELP " in head.text or "{" in head.text.partition("\n")[0]
    )


class _Metrics:
    """Samples of a file: sums over labels, and buckets of histograms by their upper end."""

    def __init__(self, source: Source) -> None:
        self.sums: dict[str, float] = defaultdict(float)
        self.buckets: dict[str, dict[float, float]] = defaultdict(lambda: defaultdict(float))
        self.models: set[str] = set()
        with source.open() as stream:
            for number, text in enumerate(stream, 1):
                if not text.strip() or text.startswith("#"):
                    continue
                found = _LINE.match(text)
                value = _float(found[3]) if found else None
                if found is None or value is None:
                    source.bad(number, "", "must be a metric of Prometheus: name{labels} value", text.strip())
                    continue
                name, labels = found[1], dict(_LABEL.findall(found[2] or ""))
                if name.startswith(_SERVERS):
                    self.models |= {labels["model_name"]} if labels.get("model_name") else set()
                if name.endswith("_bucket") and (end := _float(labels.get("le", ""))) is not None:
                    self.buckets[name.removesuffix("_bucket")][end] += value
                else:
                    self.sums[name] += value

    def first(self, names: tuple[str, ...]) -> float:
        return next((self.sums[name] for name in names if self.sums.get(name, 0) > 0), math.nan)

    def mean(self, names: tuple[str, ...]) -> float:
        for name in names:
            if self.sums.get(f"{name}_count", 0) > 0:
                return self.sums[f"{name}_sum"] / self.sums[f"{name}_count"]
        return math.nan

    def quantiles(self, names: tuple[str, ...]) -> dict[float, float]:
        """Shares of requests up to the ends of buckets; the open one ends at the last bound."""
        for name in names:
            ends = sorted(self.buckets.get(name, ()))
            total = self.buckets[name][ends[-1]] if ends else 0.0
            if total > 0:
                found = {0.0: 1.0}
                bound = 1.0
                for end in ends:
                    share = self.buckets[name][end] / total
                    bound = end if math.isfinite(end) else bound
                    if share <= 0:
                        found = {0.0: bound}
                    elif share not in found:
                        found[share] = bound
                return found
        return {}


def _read(source: Source) -> RequestTrace:
    metrics = _Metrics(source)
    source.check()
    if len(metrics.models) > 1:
        rule = "names several models; keep the lines of one"
        raise BadInput(Problem("model_name", rule, ", ".join(sorted(metrics.models)), file=str(source.path)))
    count = metrics.first((*(f"{name}_count" for name in _OUTPUTS), *_COUNTS))
    if math.isnan(count):
        rule = "has no request: the file was taken before the server answered one"
        raise BadInput(Problem(_OUTPUTS[0], rule, file=str(source.path)))
    requests = requests_of(source, "requests", round(count))
    lengths = []
    for names, totals in zip((_INPUTS, _OUTPUTS), _TOTALS, strict=True):
        mean = metrics.mean(names)
        lengths.append(
            Lengths(metrics.first(totals) / requests if math.isnan(mean) else mean, metrics.quantiles(names))
        )
    measured = {f"{name}_mean_s": metrics.mean(names) for name, names in _LATENCIES.items()}
    why = "counted since the server was started, at whatever load it had: set rate_per_s or concurrency"
    source.assumed.append(("requests", requests, why))
    return of_totals(source, requests, lengths[0], lengths[1], measured=measured)


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


TRACES.add("prometheus", TraceFormat("metrics of a server (Prometheus text)", _detect, _read))
