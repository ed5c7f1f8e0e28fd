"""From served requests to the quantities that serving rows measured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.serving.event_loop.requests import DONE, Requests


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One simulated run."""

    requests: Requests
    request_s: float
    """Seconds of client, HTTP and tokeniser, once a request."""
    devices: int
    cache_used: float = 0.0
    """Largest share of the cache in use."""
    preemptions: int = 0
    totals: Any = None
    """Sums of the event loop, where the run had one pool."""
    mean_power: float | None = None
    """Mean draw of one board over the run, as a share of the board power on its data sheet."""
    peak_power: float | None = None


def serving_unit(key: str) -> str:
    """Unit of a row's metric, by its name."""
    name = key.lower()
    if "tok_s" in name:
        return "tokens/s"
    for ending, unit in (("_ms", "ms"), ("_s", "s"), ("_w", "W"), ("_pct", "%"), ("rps", "requests/s")):
        if name.endswith(ending):
            return unit
    return "ms" if "_ms_" in name else ""


def served_value(metric: str, served: Served) -> float | None:
    """A row's metric from a simulated run, in the row's unit; None where the run has no such quantity."""
    name = metric.lower()
    q = served.requests
    done = q.state == DONE
    if not done.any():
        return None
    ttft = q.first_token_s[done] - q.arrival_s[done] + served.request_s
    e2e = q.finish_s[done] - q.arrival_s[done] + served.request_s
    out = q.output_tokens[done].astype(np.float64)
    span = float(np.nanmax(q.finish_s[done]) - np.nanmin(q.arrival_s[done]))
    per_device = served.devices if "per_gpu" in name or "per_device" in name else 1
    if "tok_s" in name:
        tokens = out.sum() + (q.input_tokens[done].sum() if "total" in name else 0.0)
        return float(tokens / span / per_device)
    if name in ("rps", "requests_per_s"):
        return float(done.sum()) / span
    if "power" in name:
        found = served.peak_power if name.startswith("peak") else served.mean_power
        return found if "frac" in name else None
    scale = 1e3 if "_ms" in name else 1.0
    values: Floats
    if re.match(r"ttft|first_token|prompt_time", name):
        values = ttft
    elif re.match(r"tpot_per_output_token", name):
        return scale * float((e2e - ttft).sum() / out.sum())
    elif re.match(r"tpot|itl|token_time", name):
        several = out > 1
        values = ((e2e - ttft)[several]) / (out[several] - 1.0)
    elif re.match(r"e2e|latency", name):
        values = e2e
    else:
        return None
    if not len(values):
        return None
    return scale * _statistic(name, values)


def _statistic(name: str, values: Floats) -> float:
    found = re.search(r"p(\d{1,2}(?:\.\d+)?)", name)
    if found:
        return float(np.percentile(values, float(found.group(1))))
    return float(np.median(values)) if "median" in name else float(np.mean(values))
