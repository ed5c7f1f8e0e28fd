"""Training results as plain data, as `--json` prints them."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from windtunnel.training.results.records import MemoryReport
from windtunnel.versions import RESULT_SCHEMA

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


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


def result_to_dict(result: DataclassInstance, *, curves: bool = False) -> dict[str, Any]:
    """All fields of a training result under their own names, in declaration order.

    Args:
        result: A `TrainingResult`.
        curves: Whether to add the memory curve and the trace (megabytes for a long step).
    """
    out: dict[str, Any] = {"schema_version": RESULT_SCHEMA}
    for f in fields(result):
        value = getattr(result, f.name)
        if f.name == "time_to_train" and value is None:
            continue
        if f.name in ("interval", "measure_next", "time_to_train") and value is not None:
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


def _memory_to_dict(memory: MemoryReport, *, curves: bool) -> dict[str, Any]:
    skipped = set() if curves else {"curve_time_s", "curve_bytes", "curve_by_kind"}
    out = {f.name: getattr(memory, f.name) for f in fields(memory) if f.name not in skipped}
    for name in ("allocated_interval", "reserved_interval"):
        band = out[name]
        out[name] = None if band is None else {g.name: getattr(band, g.name) for g in fields(band)}
    out["fits"] = memory.fits
    return out
