"""A trace as a commented `serving.traffic` section: the file, and the laws that are fitted to it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from windtunnel.errors import comment
from windtunnel.importers.traces import TRACES, Options, RequestTrace
from windtunnel.serving.traffic.fit_distributions import FIELDS, POOR, FittedLengths, FittedTraffic


def settings(trace: RequestTrace, file: str, options: Options) -> dict[str, Any]:
    """Fields of `traffic` that replay the trace.

    Args:
        trace: as read.
        file: path that the scenario will name it by.
        options: what had to be said to read it.
    """
    said = {
        "trace_time_unit": options.time_unit,
        "trace_block_size": options.block_size,
        "trace_characters_per_token": options.characters_per_token,
    }
    how = trace.stated if trace.arrival_s is None else {}
    how = how or ({} if trace.arrival_s is not None else {"rate_per_s": 1.0})
    return {"trace": file, "trace_format": trace.format} | {k: v for k, v in said.items() if v is not None} | how


def laws(fitted: FittedTraffic, trace: RequestTrace) -> dict[str, Any]:
    """Fields of `traffic` that draw requests like the trace's, without the file."""
    found: dict[str, Any] = {"num_requests": len(trace)}
    arrivals = fitted.arrivals
    if arrivals is not None:
        shape = {"burstiness": _short(arrivals.burstiness)} if arrivals.process == "gamma" else {}
        found = {"rate_per_s": _short(arrivals.rate_per_s), "process": arrivals.process} | shape | found
    else:
        found = (trace.stated or {"rate_per_s": 1.0}) | found
    found["input_tokens"] = fitted.input_tokens.law
    if fitted.output_tokens is not None:
        found["output_tokens"] = fitted.output_tokens.law
    if round(fitted.correlation, 2):
        found["correlation"] = round(fitted.correlation, 2)
    if fitted.turns is not None:
        found["sessions"] = {"turns": fitted.turns.law, "think_time_s": _short(fitted.think_time_s)}
    return found


def text(trace: RequestTrace, fitted: FittedTraffic, file: str, options: Options) -> str:
    """The section as YAML that loads as it is; laws stand behind `#`."""
    entry = TRACES.get(trace.format)
    span = None if trace.arrival_s is None or fitted.arrivals is None else float(_last(trace))
    lines = [comment(f"{file}: {entry.title}, {len(trace)} requests" + (f" in {span:.6g} s" if span else ""))]
    lines += [comment(f"left out: {count} {why}") for count, why in trace.left_out]
    lines += [comment(f"assumed {field} = {value}: {why}") for field, value, why in trace.assumed]
    lines += [comment(f"measured {name}: {value:.6g}") for name, value in measured(trace).items()]
    if fitted.known_blocks is not None:
        lines.append(f"# prefixes: an earlier request holds {fitted.known_blocks:.1%} of all prompt blocks")
    lines += ["serving:", "  traffic:"]
    lines += [f"    {name}: {_flow(value)}" for name, value in settings(trace, file, options).items()]
    if trace.arrival_s is None and not trace.stated:
        lines.append("    # the trace has no arrival times: set rate_per_s, or concurrency, or offline: true")
    if unsaid := int((trace.output_tokens == 0).sum()):
        lines.append(f"    # {unsaid} requests do not say how long answers are: set output_tokens")
    lines += [
        "    # Laws fitted to the trace. To draw from them, at any rate and number: take out the lines above,",
        "    # and the `# ` before these.",
    ]
    notes = _notes(fitted)
    for name, value in laws(fitted, trace).items():
        if name == "sessions":
            lines += ["    # sessions:"] + [f"    #   {k}: {_flow(v)}" for k, v in value.items()]
        else:
            lines.append(f"    # {name}: {_flow(value)}" + (f"  # {notes[name]}" if name in notes else ""))
    return "\n".join(lines) + "\n"


def measured(trace: RequestTrace) -> dict[str, float]:
    """What the run behind a trace measured: its own totals, else means and percentiles over requests."""
    found = dict(trace.measured)
    for name, values in (("ttft", trace.ttft_s), ("e2e", trace.e2e_s)):
        known = values[np.isfinite(values)] if values is not None else np.zeros(0)
        if len(known) and f"{name}_mean_s" not in found:
            found |= {f"{name}_mean_s": float(known.mean()), f"{name}_median_s": float(np.median(known))}
            found[f"{name}_p99_s"] = float(np.percentile(known, 99))
    return found


def as_dict(trace: RequestTrace, fitted: FittedTraffic, file: str, options: Options) -> dict[str, Any]:
    """For `--json`."""
    return {
        "file": file,
        "format": trace.format,
        "requests": len(trace),
        "serving": {"traffic": settings(trace, file, options)},
        "fitted": laws(fitted, trace),
        "fit": asdict(fitted),
        "measured": measured(trace),
        "assumed": [{"field": f, "value": v, "why": why} for f, v, why in trace.assumed],
        "left_out": [{"requests": count, "why": why} for count, why in trace.left_out],
    }


def _notes(fitted: FittedTraffic) -> dict[str, str]:
    """What stands next to a law: how near it is."""
    notes = {"input_tokens": _near(fitted.input_tokens)}
    if fitted.output_tokens is not None:
        notes["output_tokens"] = _near(fitted.output_tokens)
    notes["correlation"] = "Spearman, of prompt and answer"
    arrivals = fitted.arrivals
    if arrivals is None:
        return notes
    of = f"counts in {arrivals.window_s:.3g} s (times are too coarse for gaps)" if arrivals.window_s else "gaps"
    notes["process"] = f"{of}: coefficient of variation {arrivals.cv:.3g}"
    if arrivals.distance is not None:
        notes["process"] += f" in the trace; cumulative shares differ by at most {arrivals.distance:.1%}"
        notes["process"] += ": far; replay the trace where bursts matter" if arrivals.distance > POOR else ""
    if arrivals.daily_swing is not None:
        notes["rate_per_s"] = (
            f"swings by ±{arrivals.daily_swing:.0%} over a day: process: diurnal, peak_to_mean: "
            f"{1 + min(arrivals.daily_swing, 1):.3g}"
        )
    return notes


def _near(fitted: FittedLengths) -> str:
    near = f"mean {fitted.mean:.5g} in the trace; cumulative shares differ by at most {fitted.distance:.1%}"
    if fitted.rejected is None:
        return near
    law, distance = fitted.rejected
    return f"quantiles of the trace, as the nearest law, {law}, differs by {distance:.1%} (limit {POOR:.0%}); {near}"


def _flow(value: Any) -> str:
    """A value in YAML's flow style, on one line."""
    if isinstance(value, dict):
        named = [name for name in FIELDS if name in value] + [name for name in value if name not in FIELDS]
        return "{" + ", ".join(f"{name}: {_flow(value[name])}" for name in named) + "}"
    if isinstance(value, str) and value.replace("_", "").isalpha():
        return value
    return json.dumps(value, ensure_ascii=isinstance(value, str) and not value.isprintable())


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _last(trace: RequestTrace) -> float:
    assert trace.arrival_s is not None
    return float(np.nanmax(trace.arrival_s))
