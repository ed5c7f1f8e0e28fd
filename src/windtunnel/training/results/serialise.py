"""Training results as plain data and back: what `--json` prints, `rerun` and `compare` read."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.training.results.training_result import Assumption, Interval, MemoryReport, TraceEvents, TrainingResult

if TYPE_CHECKING:
    from collections.abc import Mapping


def plain(value: Any) -> Any:
    """JSON-ready copy of a value: arrays and tuples become lists, NaN and infinity become null."""
    if isinstance(value, (np.floating, float)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return [plain(v) for v in value.tolist()]
    if isinstance(value, (np.integer, np.bool_)):
        return value.item()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def result_to_dict(result: TrainingResult, *, curves: bool = False) -> dict[str, Any]:
    """All fields of a result under their own names, in declaration order.

    Args:
        result: the prediction.
        curves: also the memory curve and the trace (megabytes for a long step).
    """
    out: dict[str, Any] = {}
    for f in fields(result):
        value = getattr(result, f.name)
        if f.name == "interval":
            value = {g.name: getattr(value, g.name) for g in fields(value)}
        elif f.name == "memory":
            value = _memory_to_dict(value, curves=curves)
        elif f.name == "assumed":
            value = [{"field": a.field, "value": a.value, "why": a.why} for a in value]
        elif f.name == "trace":
            if not curves or value is None:
                continue
            value = {g.name: getattr(value, g.name) for g in fields(value)}
        out[f.name] = plain(value)
    return out


def result_from_dict(data: Mapping[str, Any]) -> TrainingResult:
    """The result that `result_to_dict` wrote. Curves that were left out come back empty.

    Raises:
        KeyError: a field without a default is missing.
    """
    known = {f.name for f in fields(TrainingResult)}
    kept = {k: v for k, v in data.items() if k in known}
    kept["interval"] = Interval(**{**data["interval"], "rows": tuple(data["interval"].get("rows", ()))})
    kept["memory"] = _memory_from_dict(data["memory"])
    kept["assumed"] = tuple(Assumption(**a) for a in data.get("assumed", ()))
    for name in ("warnings", "citations", "techniques", "stages", "groups", "run"):
        kept[name] = tuple(data.get(name, ()))
    trace = data.get("trace")
    kept["trace"] = _trace_from_dict(trace) if trace else None
    return TrainingResult(**kept)


def _memory_to_dict(memory: MemoryReport, *, curves: bool) -> dict[str, Any]:
    skipped = set() if curves else {"curve_time_s", "curve_bytes", "curve_by_kind"}
    out = {f.name: getattr(memory, f.name) for f in fields(memory) if f.name not in skipped}
    for name in ("allocated_interval", "reserved_interval"):
        band = out[name]
        out[name] = None if band is None else {g.name: getattr(band, g.name) for g in fields(band)}
    out["fits"] = memory.fits
    return out


def _band(data: Mapping[str, Any] | None) -> Interval | None:
    return None if data is None else Interval(**{**data, "rows": tuple(data.get("rows", ()))})


def _memory_from_dict(data: Mapping[str, Any]) -> MemoryReport:
    return MemoryReport(
        stage=data["stage"],
        peak_allocated_bytes=data["peak_allocated_bytes"],
        peak_reserved_bytes=data["peak_reserved_bytes"],
        capacity_bytes=data["capacity_bytes"],
        at_peak=dict(data["at_peak"]),
        per_stage_allocated_bytes=tuple(data["per_stage_allocated_bytes"]),
        curve_time_s=np.asarray(data.get("curve_time_s", ()), np.float64),
        curve_bytes=np.asarray(data.get("curve_bytes", ()), np.float64),
        curve_by_kind={k: np.asarray(v, np.float64) for k, v in data.get("curve_by_kind", {}).items()},
        reserved_by_allocator_bytes=data.get("reserved_by_allocator_bytes", 0.0),
        communication_buffer_bytes=data.get("communication_buffer_bytes", 0.0),
        context_bytes=data.get("context_bytes", 0.0),
        allocator_retries=data.get("allocator_retries", 0),
        host_bytes=data.get("host_bytes", 0.0),
        host_capacity_bytes=math.inf if data.get("host_capacity_bytes") is None else data["host_capacity_bytes"],
        tier_bytes=dict(data.get("tier_bytes", {})),
        tier_capacity_bytes={k: math.inf if v is None else v for k, v in data.get("tier_capacity_bytes", {}).items()},
        allocated_interval=_band(data.get("allocated_interval")),
        reserved_interval=_band(data.get("reserved_interval")),
        fit_probability=data.get("fit_probability"),
    )


def _trace_from_dict(data: Mapping[str, Any]) -> TraceEvents:
    return TraceEvents(
        start_s=np.asarray(data["start_s"], np.float64),
        end_s=np.asarray(data["end_s"], np.float64),
        stage=np.asarray(data["stage"], np.int32),
        stream=np.asarray(data["stream"], np.int32),
        tag=np.asarray(data["tag"], np.int32),
        micro_batch=np.asarray(data["micro_batch"], np.int32),
        chunk=np.asarray(data["chunk"], np.int32),
        streams=tuple(data.get("streams", ())),
        tags=tuple(data.get("tags", ())),
    )
