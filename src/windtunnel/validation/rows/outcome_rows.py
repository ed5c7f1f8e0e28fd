"""Rows of outcomes: quality of reasoning, post-training, image and video models, and what they measured.

Every number of a row is a metric of its own, by its path in the row (`online.accuracy`); a number that says how the row
was measured (`cases`, `samples`) is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windtunnel.validation.rows.parsing.loose_values import mapping

REASONING = (
    "problem_successes",
    "pass_at_k",
    "all_of_k",
    "majority",
    "two_attempts",
    "verifier_selection",
    "single_attempt",
    "parallel_threads",
    "early_stop",
    "agent_cost",
    "agent_trace",
    "agent_trace_statistics",
)
DATA_PIPELINES = ("ray_rate", "ray_scale", "minhash_dedup", "data_pipeline")
_SETTINGS = frozenset(
    "kind id model task note source device n_devices traces cases samples tasks sessions queries name edit_format date "
    "reasoning_effort reading extra num_tasks cpus nodes cores data temperature".split()
)
_GREATEST = 1e18
"""Beyond this a number measures nothing."""
_UNITS = (
    (r"accuracy|percent", "percent"),
    (r"tokens_per_s(?![a-z])", "tokens/s"),
    (r"_per_s(?![a-z])", "1/s"),
    (r"usd", "usd"),
    (r"(^|_)ms(?![a-z])", "ms"),
    (r"_s(?![a-z])|seconds", "s"),
    (r"minutes", "min"),
    (r"hours", "h"),
    (r"token|(in|out)put_mean", "tokens"),
    (r"mfu", "fraction"),
    (r"gib", "GiB"),
)
"""Patterns of metrics' names, the first that is found first."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One number of a row."""

    metric: str
    unit: str
    value: float | None
    """None where a row says that there was none, such as a device that ran out of memory."""


def outcome_kind(row: dict[str, Any]) -> str | None:
    """The kind of an outcome row; None where the row is of another sort."""
    kind = row.get("kind")
    if not isinstance(kind, str):
        return None
    known = (*REASONING, *DATA_PIPELINES, "diffusion_latency")
    return kind if kind in known or kind.startswith("rl_") else None


def family_of(row: dict[str, Any]) -> str:
    """What rows are summed up by: the task, the framework, or the model."""
    for key in ("task", "framework", "model", "name"):
        if isinstance(row.get(key), str) and row[key]:
            return str(row[key])
    return ""


def measured(row: dict[str, Any]) -> tuple[Measured, ...]:
    """All numbers that a row measured; one without a value where it has none."""
    kind = row.get("kind")
    if kind == "problem_successes":
        return tuple(Measured(name, "share", value) for name, value in successes(row))
    if kind == "diffusion_latency":
        metric = str(row.get("metric") or "none")
        return (Measured(metric, "ratio" if "speedup" in metric else "s", finite(row.get("value"))),)
    if kind == "pass_at_k":
        return _by_k(row.get("percent"), "pass@", "percent")
    if kind == "all_of_k":
        return _by_k(row.get("fraction"), "pass^", "fraction")
    if kind in ("majority", "verifier_selection", "single_attempt"):
        return tuple(Measured(name, "percent", value) for name, value in _numbers(row.get("percent"), ""))
    if kind == "ray_rate":
        unit, name = str(row.get("unit") or ""), str(row.get("name") or "value")
        return tuple(
            Measured(name + end, unit, value)
            for end, key in (("", "value"), (".standard_deviation", "standard_deviation"))
            for _, value in _numbers(row.get(key), key)
        ) or (Measured("none", "", None),)
    source = row.get("metrics") if str(kind).startswith("rl_") else {k: v for k, v in row.items() if k not in _SETTINGS}
    found = tuple(Measured(name, _unit(name), value) for name, value in _numbers(source, ""))
    return found or (Measured("none", "", None),)


def successes(row: dict[str, Any]) -> list[tuple[str, float]]:
    """Measured pass@10 and share of problems solved in all attempts."""
    import numpy as np

    from windtunnel.population.pass_at_k import estimate_pass_at_k

    counted = counts(row)
    if counted is None:
        return []
    correct, samples = counted
    out = [("pass@10", estimate_pass_at_k(correct, samples, 10))] if samples.min() >= 10 else []
    return [*out, ("pass@all", float(np.mean(correct > 0)))]


def counts(row: dict[str, Any]) -> tuple[Any, Any] | None:
    """Right attempts and attempts of each problem as arrays of integers; None where they do not fit together."""
    import numpy as np

    try:
        correct = np.asarray(row.get("correct"), np.int64)
        each = row.get("samples") if row.get("samples") is not None else row.get("samples_per_problem")
        samples = np.broadcast_to(np.asarray(each, np.int64), correct.shape)
    except (TypeError, ValueError, OverflowError):
        return None
    if correct.ndim != 1 or not len(correct) or (correct < 0).any() or (correct > samples).any() or samples.min() < 1:
        return None
    return correct, samples


def _by_k(table: Any, name: str, unit: str) -> tuple[Measured, ...]:
    found = []
    for key, value in mapping(table).items():
        share = finite(value)
        if re.fullmatch(r"[0-9]{1,9}", str(key)) and int(key) > 0 and share is not None:
            found.append((int(key), share))
    return tuple(Measured(f"{name}{k}", unit, value) for k, value in sorted(found)) or (Measured("none", "", None),)


def _numbers(value: Any, path: str) -> Iterator[tuple[str, float | None]]:
    """(path, number) of all numbers below, in order; None where the row states that there is none."""
    if isinstance(value, bool) or isinstance(value, str):
        return
    if value is None:
        if path:
            yield path, None
    elif isinstance(value, int | float):
        yield path, finite(value)
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _numbers(entry, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for at, entry in enumerate(value):
            yield from _numbers(entry, f"{path}.{at}")


def finite(value: Any) -> float | None:
    """A finite number of a row; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _GREATEST:
        return None
    return float(value)


def _unit(metric: str) -> str:
    return next((unit for pattern, unit in _UNITS if re.search(pattern, metric)), "")
