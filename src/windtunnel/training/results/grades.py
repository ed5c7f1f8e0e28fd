"""Confidence of each figure of a training result: measured, fitted, analytic or assumed."""

from __future__ import annotations

from windtunnel.cost.provenance import weakest
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.training.results.records import Interval, MemoryReport

_TIMES = (
    "step_time_s",
    "tokens_per_s",
    "tokens_per_s_per_device",
    "model_tflops_per_device",
    "hardware_tflops_per_device",
    "mfu",
    "hfu",
    "breakdown",
    "sensitivities",
    "bound_by",
)


def figure_grades(interval: Interval, memory: MemoryReport, cluster: ClusterSpec) -> dict[str, str]:
    """Figure of a training result → grade.

    Times, and figures that follow from them, have the confidence of the step time's interval. Memory has the
    confidence of its interval; without an interval the layout of tensors is analytic. Traffic and FLOPs are counted,
    hence analytic. Watts and joules follow from the power of the data sheet and the energy of operations, money from
    the price of a device-hour: a price given with the cluster counts as measured, a list price of the catalogue as
    assumed.
    """
    time = interval.grade
    allocated, reserved = memory.allocated_interval, memory.reserved_interval
    power = weakest([time, "analytic" if cluster.device.tdp_w else "assumed"])
    priced = cluster.price_per_device_hour is not None
    out = dict.fromkeys(_TIMES, time)
    return out | {
        "peak_memory_allocated_bytes": allocated.grade if allocated else "analytic",
        "peak_memory_reserved_bytes": reserved.grade if reserved else "analytic",
        "memory_fits": reserved.grade if reserved else "analytic",
        "model_flop_per_token": "analytic",
        "attention_flop_per_token": "analytic",
        "traffic": "analytic",
        "mean_power_w": power,
        "energy_per_token_j": power,
        "clock": power,
        "cost_per_million_tokens": weakest([time, "measured" if priced else "assumed"]),
    }


def grade_line(grades: dict[str, str]) -> str:
    """One line with the confidence of time, memory, traffic, power and cost."""
    shown = {
        "time": "step_time_s",
        "memory": "peak_memory_reserved_bytes",
        "traffic": "traffic",
        "power": "mean_power_w",
        "cost": "cost_per_million_tokens",
    }
    return " · ".join(f"{name} {grades[key]}" for name, key in shown.items() if key in grades)
