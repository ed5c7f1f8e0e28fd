"""Sums over calls of rows of agents and threads: tokens, calls and dollars from the parts that a row states.

Each follows from other figures of its row by counting; nothing here was fitted. `agent_trace` starts from the stages or
the traces, `agent_cost` from the total, `parallel_threads` from the tokens of sequences and of critical paths,
`agent_trace_statistics` from calls and prompt tokens.
"""

from __future__ import annotations

from typing import Any

from windtunnel.validation.predict.prediction import INPUT, Prediction
from windtunnel.validation.rows.outcome_rows import Measured, finite
from windtunnel.validation.rows.parsing.loose_values import mapping

_SIZES = {"aime2": 30, "humaneval": 164, "math500": 500, "gpqa_diamond": 198}
_TOTALS = ("calls_per_query", "input_tokens_per_query", "output_tokens_per_query")
_MEAN_OF_RATIOS = 0.1
"""Half width, as a fraction, of a mean of ratios about the ratio of the means: three tasks differ by 1 to 8 %."""
_PARENTS = 0.08
"""The same of all sequences' mean length about that of parents and children apart."""
_EXPIRED = (0.0, 0.008, 0.04)
"""Share of prompts that come after the cache's time to live: none; a tenth of steps wait two minutes for a user, and
five minutes are kept; a fifth wait five minutes (open values of `papers/tracelab`)."""


def agent_trace(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    """Calls and tokens a query: sums over the traces, or over stages where no traces are listed."""
    sums, width, basis = _of_traces(row.get("traces")), 0.001, "sums over the traces; rounding of the row"
    if sums is None:
        sums, width, basis = _of_stages(row.get("stages")), 0.01, "sums over the stages; rounding of the row"
    if sums is None:
        return {}
    out = {n.metric: INPUT for n in numbers if n.metric.startswith("stages.") or n.metric == "queries"}
    return out | {name: _about(sums[at], width, basis) for at, name in enumerate(_TOTALS)}


def agent_cost(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    """Dollars a task: the total over the tasks."""
    by_name = {n.metric: n.value for n in numbers}
    total, problems = by_name.get("total_usd"), problems_of(row)
    if total is None or total < 0 or problems is None:
        return {}
    return {
        "total_usd": INPUT,
        "usd_per_issue": _about(total / problems, 0.01, "total over tasks; rounding of the row"),
    }


def threads(numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    """Speedup by critical paths, and all tokens of a program of threads."""
    by_name = {n.metric: n.value for n in numbers}
    out: dict[str, Prediction] = {}
    before, after = by_name.get("sequential.token_latency"), by_name.get("threaded.token_latency")
    if before is not None and after is not None and min(before, after) > 0:
        basis = "ratio of mean critical paths; a mean of ratios is not the ratio of means"
        out["threaded.token_latency"] = INPUT
        out["mean_speedup"] = _about(before / after, _MEAN_OF_RATIOS, basis)
    for name, mean in by_name.items():
        if ".mean_sequence_tokens" not in name or mean is None or mean < 0:
            continue
        children = by_name.get(name.replace(".mean_sequence_tokens", ".child_threads"))
        if children is not None and children >= 0:
            out[name] = out[name.replace(".mean_sequence_tokens", ".child_threads")] = INPUT
            total = name.replace(".mean_sequence_tokens", ".total_tokens")
            basis = "a parent and its children, each as long as the mean sequence"
            out[total] = _about(mean * (1.0 + children), _PARENTS, basis)
    return {name: told for name, told in out.items() if name in by_name}


def cached_tokens(row: dict[str, Any], numbers: tuple[Measured, ...]) -> dict[str, Prediction]:
    """Cached prompt tokens of sessions whose prompts grow evenly from call to call.

    n prompts that grow from nothing to 2·x, x their mean, compute 2·x tokens anew of n·x; those that come after the
    time to live compute all of theirs.
    """
    by_name = {n.metric: n.value for n in numbers}
    steps, prompts, sessions = by_name.get("steps"), by_name.get("input_tokens"), finite(row.get("sessions"))
    if not steps or not prompts or not sessions or min(steps, prompts) < 0 or not 0 < sessions <= steps:
        return {}
    calls = steps / sessions
    shares = [max(0.0, 1.0 - min(1.0, 2.0 / calls)) * (1.0 - expired) for expired in _EXPIRED]
    told = Prediction(
        value=prompts * shares[1],
        low=prompts * shares[2],
        high=prompts * (1.0 - min(1.0, 1.0 / calls)),
        basis="prompts that grow from nothing, or are all as long; pauses beyond the time to live",
        assumed=(("programs.cache_ttl_s", "300", "the provider's; shares of steps that wait for a user are open"),),
    )
    return {"steps": INPUT, "input_tokens": INPUT, "cached_input_tokens": told}


def size_of(task: str) -> int | None:
    """Problems of a benchmark that is always of one size."""
    return next((size for name, size in _SIZES.items() if task.casefold().startswith(name)), None)


def problems_of(row: dict[str, Any]) -> int | None:
    """Problems of a benchmark, where the row says so: `tasks`, or a number in the task's name."""
    import re

    tasks = row.get("tasks")
    if isinstance(tasks, int) and not isinstance(tasks, bool) and 0 < tasks < 10**9:
        return tasks
    match = re.search(r"\((\d{1,6})\)|-(\d{2,4})\b|[a-z](\d{3,4})\b", str(row.get("task") or ""))
    return int(match.group(1) or match.group(2) or match.group(3)) or None if match else None


def _of_traces(traces: Any) -> tuple[float, float, float] | None:
    if not isinstance(traces, list) or not traces or not all(isinstance(t, list) for t in traces):
        return None
    calls = [call for trace in traces for call in trace]
    if not all(isinstance(c, list) and len(c) == 3 and _is_number(c[1]) and _is_number(c[2]) for c in calls):
        return None
    sums = (float(len(calls)), sum(float(c[1]) for c in calls), sum(float(c[2]) for c in calls))
    return sums[0] / len(traces), sums[1] / len(traces), sums[2] / len(traces)


def _of_stages(stages: Any) -> tuple[float, float, float] | None:
    found = [mapping(stage) for stage in mapping(stages).values()]
    needed = ("per_query", "input_mean", "output_mean")
    if not found or not all(_is_number(stage.get(name)) for stage in found for name in needed):
        return None
    each = [(float(s["per_query"]), float(s["input_mean"]), float(s["output_mean"])) for s in found]
    return sum(n for n, _, _ in each), sum(n * i for n, i, _ in each), sum(n * o for n, _, o in each)


def _is_number(value: Any) -> bool:
    number = finite(value)
    return number is not None and number >= 0


def _about(value: float, width: float, basis: str) -> Prediction:
    """A value with an interval of a fraction of it to each side."""
    return Prediction(value=value, low=value * (1 - width), high=value * (1 + width), basis=basis, grade="analytic")
