"""The figures of a result that fit into a small answer, most wanted first."""

from __future__ import annotations

from typing import Any

from windtunnel.error_records import problems_of
from windtunnel.mcp.records import Answer, ProblemRecord, small

_FIGURES: dict[str, tuple[str, ...]] = {
    "train": (
        "step_time_s", "tokens_per_s_per_device", "mfu", "memory_fits", "peak_memory_reserved_bytes", "bound_by",
        "num_devices", "cost_per_million_tokens", "mean_power_w", "breakdown",
    ),
    "serve": (
        "ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "throughput_requests_per_s", "slo_attainment", "saturated",
        "kv_cache_usage_max", "cost_per_million_output_tokens", "bound_by", "num_devices",
    ),
    "fit": ("fits", "reserved_bytes", "capacity_bytes", "over_bytes", "largest_mbs", "fewest_devices", "changes"),
    "run": (
        "days", "ideal_days", "goodput", "ettr", "badput", "failures_mean", "restarts_mean", "checkpoint", "spares",
        "cost", "currency", "energy_kwh", "carbon_kg",
    ),
    "cluster": (
        "policy", "jobs", "jct_s", "makespan_s", "queue_s", "utilisation", "fragmentation", "finish_time_fairness",
        "preemptions", "energy_kwh", "cost", "power_w",
    ),
    "learn": (
        "time_to_target_s", "resolved", "bytes_per_worker_step", "utilisation", "staleness", "worker_steps_per_s",
    ),
    "reason": ("objective", "best", "limits", "population", "answers"),
    "plan": ("best", "recommended", "proof", "objectives", "evaluated"),
    "advise": ("bottleneck", "objective", "suggestions", "settings", "pairs"),
    "compare": ("a_step_time_s", "b_step_time_s", "ratio", "differences"),
}  # fmt: skip
_DISTRIBUTION = ("mean", "p50", "p90", "p99")
_MAIN = {"train": "step_time_s", "serve": "ttft_s", "run": "days"}


def summary(verb: str, result: dict[str, Any], detail: str) -> Answer:
    """A small answer of a verb's result; with `detail` full also the result itself."""
    figures = {name: _short(result[name]) for name in _FIGURES.get(verb, ()) if result.get(name) is not None}
    main = _MAIN.get(verb, "")
    interval = result.get("interval") or (result.get("intervals") or {}).get(main)
    grades = result.get("grades")
    answer = Answer(
        ok=True,
        figures=figures,
        interval=_band(interval),
        grade=grades.get(main) if isinstance(grades, dict) else None,
        assumed=[f"{one['field']} = {one['value']}" for one in result.get("assumed", ()) if isinstance(one, dict)],
        warnings=[str(one) for one in result.get("warnings", ())],
    )
    return answer.model_copy(update={"full": result}) if detail == "full" else small(answer)


def failure(error: Exception) -> list[ProblemRecord]:
    """What went wrong, as tools tell it."""
    problems, _ = problems_of(error)
    return [
        ProblemRecord(
            path=one["field"] or one["file"],
            value=one["value"],
            allowed=str(one["message"]),
            nearest=_nearest(one["hint"]),
        )
        for one in problems
    ]


def _nearest(hint: Any) -> str | None:
    text = str(hint or "")
    return text.split("'")[1] if text.startswith("did you mean '") else (text or None)


def _band(interval: Any) -> dict[str, Any] | None:
    if not isinstance(interval, dict):
        return None
    return {name: interval[name] for name in ("level", "low", "high") if name in interval} or None


def _short(value: Any, depth: int = 0) -> Any:
    """A value with four digits, distributions by their percentiles, lists and mappings by their first entries."""
    if isinstance(value, bool) or value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, str):
        return value if len(value) <= 120 else value[:119] + "…"
    if isinstance(value, dict):
        if "p50" in value and "p99" in value:
            return {name: _short(value[name]) for name in _DISTRIBUTION if name in value}
        most = 8 if depth == 0 else 5
        kept = [(k, v) for k, v in value.items() if v not in (None, [], {}, "")][:most]
        return {str(k): _short(v, depth + 1) for k, v in kept} if depth < 3 else "…"
    if isinstance(value, list | tuple):
        return [_short(one, depth + 1) for one in value[:3]] if depth < 3 else "…"
    return str(value)
