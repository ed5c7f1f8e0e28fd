"""Training results from the plain data that `--json` prints: `rerun` and `compare` read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from windtunnel.errors import shown
from windtunnel.training.results.records import (
    Assumption,
    Interval,
    MemoryReport,
    NextMeasurement,
    TimeToTrain,
    TraceEvents,
)
from windtunnel.training.results.training_result import TrainingResult

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def result_from_dict(data: Mapping[str, Any]) -> TrainingResult:
    """The result that `result_to_dict` wrote. Curves that were left out come back empty.

    Raises:
        KeyError: A field without a default is missing.
        TypeError: A field holds something else than its kind; the message names it.
        ValueError: The step takes no time.
    """
    known = {f.name for f in fields(TrainingResult)}
    kept = {k: v for k, v in data.items() if k in known}
    kept["interval"] = _band(data["interval"])
    kept["memory"] = _memory_from_dict(data["memory"])
    following = data.get("measure_next")
    kept["measure_next"] = None if following is None else _of_its_kinds(NextMeasurement(**following))
    until = data.get("time_to_train")
    kept["time_to_train"] = None if until is None else _of_its_kinds(TimeToTrain(**until))
    kept["assumed"] = tuple(Assumption(**a) for a in data.get("assumed", ()))
    for name in ("warnings", "citations", "techniques", "stages", "groups", "run"):
        kept[name] = tuple(data.get(name, ()))
    trace = data.get("trace")
    kept["trace"] = _trace_from_dict(trace) if trace else None
    found = _of_its_kinds(TrainingResult(**kept))
    if not 0.0 < found.step_time_s < math.inf:
        raise ValueError(f"step_time_s is {shown(found.step_time_s)}, which is no time of a step")
    return found


RecordT = TypeVar("RecordT", bound="DataclassInstance")


def _of_its_kinds(record: RecordT) -> RecordT:
    """The record itself, once all its fields hold what they are declared as.

    Raises:
        TypeError: with the first field that does not.
    """
    for name, kind in get_type_hints(type(record)).items():
        if not _is_a(getattr(record, name), kind):
            raise TypeError(
                f"{name} is {shown(getattr(record, name))}, which is not {_WORDS.get(kind, 'what it holds')}"
            )
    return record


_WORDS: dict[Any, str] = {float: "a number", int: "a whole number", str: "text", bool: "true or false"}


def _is_a(value: Any, kind: Any) -> bool:
    """Whether a value is of a declared kind, entries of tables and lists included; arrays and records always are."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return any(_is_a(value, one) for one in inner)
    if origin is dict:
        return isinstance(value, dict) and all(_is_a(v, inner[1]) for v in value.values())
    if origin is tuple:
        return isinstance(value, tuple) and all(_is_a(v, inner[0]) for v in value)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and value == value
    if kind in (int, str, bool, NoneType):
        return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return True


def _band(data: Mapping[str, Any] | None) -> Interval | None:
    return None if data is None else _of_its_kinds(Interval(**{**data, "rows": tuple(data.get("rows", ()))}))


def _memory_from_dict(data: Mapping[str, Any]) -> MemoryReport:
    report = MemoryReport(
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
        wanted_by_allocator_bytes=data.get("wanted_by_allocator_bytes", 0.0),
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
    return _of_its_kinds(report)


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
