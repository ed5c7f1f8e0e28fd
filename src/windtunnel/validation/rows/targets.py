"""From a simulated step to the quantity that a row measured, and back to an interval."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from windtunnel.specs.model import ModelSpec
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.validation.rows.parsing.loose_values import mapping, number, switch, words

GIB = 2**30
Convert = Callable[[TrainingResult], float]


@dataclass(frozen=True, slots=True)
class Target:
    """One measured quantity of a row and how a simulated step becomes it."""

    metric: str
    unit: str
    measured: float
    convert: Convert


@dataclass(frozen=True, slots=True)
class Work:
    """What a step processes, for conversions."""

    tokens: float
    sequences: float
    devices: int
    seq_len: int
    model: ModelSpec
    scale: float = 1.0
    """Row's tokens over simulated tokens (unpacked documents)."""


def at_step_time(result: TrainingResult, seconds: float) -> TrainingResult:
    """A copy of a result with another step time, and rates that follow from it."""
    ratio = result.step_time_s / seconds
    return replace(
        result,
        step_time_s=seconds,
        tokens_per_s=result.tokens_per_s * ratio,
        tokens_per_s_per_device=result.tokens_per_s_per_device * ratio,
        model_tflops_per_device=result.model_tflops_per_device * ratio,
        hardware_tflops_per_device=result.hardware_tflops_per_device * ratio,
        mfu=result.mfu * ratio,
        hfu=result.hfu * ratio,
    )


def training_targets(row: dict[str, Any], work: Work | None) -> tuple[Target, ...]:
    """Targets of a training row: time first, then memory."""
    targets = []
    metric, unit = words(row.get("metric")), str(row.get("unit") or "")
    value = number(row.get("value"))
    step = number(mapping(row.get("derived")).get("step_time_s"))
    if step is not None and step > 0:
        scale = work.scale if work else 1.0
        targets.append(Target("step_time", "s", step, lambda r: r.step_time_s * scale))
    elif metric and not metric.startswith(("peak_memory", "oom")) and value is not None and value > 0:
        targets.append(_rate(row, metric, unit, value, work))
    if metric == "oom" or metric.startswith("oom"):
        fits = switch(row.get("value"))
        targets.append(Target("oom", "bool", float(fits is not False), lambda r: float(not r.memory_fits)))
    elif metric.startswith("peak_memory") and value is not None and value > 0:
        targets.append(_memory(metric, value))
    beside = number(row.get("mem_gib"))
    if beside is not None and beside > 0 and not metric.startswith("peak_memory"):
        targets.append(_used(beside) if _is_of_the_device(row) else _memory(_memory_kind(row), beside))
    return tuple(targets)


def _memory(metric: str, gib: float) -> Target:
    if "reserved" in metric:
        return Target(metric, "GiB", gib, lambda r: r.memory.reserved_by_allocator_bytes / GIB)
    return Target(metric, "GiB", gib, lambda r: r.peak_memory_allocated_bytes / GIB)


def _used(gib: float) -> Target:
    """All that a device holds, with contexts and communication buffers."""
    return Target("peak_memory_reserved", "GiB", gib, lambda r: r.peak_memory_reserved_bytes / GIB)


def _is_of_the_device(row: dict[str, Any]) -> bool:
    """Whether a peak was read from the device (`nvidia-smi`) and not from the framework's allocator."""
    extra = mapping(row.get("extra"))
    return "smi" in f"{words(extra.get('mem_kind'))} {words(extra.get('memory_kind'))} {words(extra.get('mem_note'))}"


def _memory_kind(row: dict[str, Any]) -> str:
    """Which peak a `mem_gib` is: the row's own words, else what the framework's log prints."""
    extra = mapping(row.get("extra"))
    text = f"{words(extra.get('mem_kind'))} {words(extra.get('memory_kind'))}"
    if re.search(r"reserved|nvidia-smi|used|smi\b", text):
        return "peak_memory_reserved"
    if re.search(r"alloc|active", text):
        return "peak_memory_allocated"
    if re.search(r"torchtitan|torchao", words(row.get("framework"))):
        return "peak_memory_reserved"
    return "peak_memory_allocated"


def _rate(row: dict[str, Any], metric: str, unit: str, value: float, work: Work | None) -> Target:
    w = work
    if w is None:
        return Target(metric, unit, value, lambda r: float("nan"))
    if metric.startswith("step_time") or metric in ("iteration_time", "time_per_step"):
        factor = 1e-3 if unit.strip().lower() == "ms" else 1.0
        return Target("step_time", "s", value * factor, lambda r: r.step_time_s * w.scale)
    if "tokens_per_s_per" in metric or ("tokens" in metric and "per_device" in metric):
        return Target(metric, unit, value, lambda r: w.tokens / r.step_time_s / w.devices)
    if "tokens_per_s" in metric:
        return Target(metric, unit, value, lambda r: w.tokens / r.step_time_s)
    if "samples_per_s" in metric or "sequences_per_s" in metric:
        over = w.devices if "per_device" in metric else 1
        return Target(metric, unit, value, lambda r: w.sequences / r.step_time_s / over)
    if "tflops" in metric or "mfu" in metric or "hfu" in metric:
        return _flops(row, metric, unit, value, w)
    steps = _steps(row, w)
    if "time_to_train" in metric and steps is not None:
        return Target(metric, unit, value, lambda r: r.step_time_s * w.scale * steps / 60)
    return Target(metric, unit, value, lambda r: float("nan"))


def _steps(row: dict[str, Any], work: Work) -> float | None:
    """Steps until the target: as stated, or the samples that were trained over those of a step."""
    extra = mapping(row.get("extra"))
    for key in ("steps_to_converge", "steps", "total_steps", "num_steps", "train_steps", "iterations"):
        found = number(extra.get(key))
        if found:
            return found
    samples = number(extra.get("samples_to_target"))
    return samples / work.sequences if samples and work.sequences else None


def _flops(row: dict[str, Any], metric: str, unit: str, value: float, w: Work) -> Target:
    """TFLOP/s and utilisation by the convention of the family (research note on FLOP conventions)."""
    extra = mapping(row.get("extra"))
    stated = " ".join(words(v) for k, v in extra.items() if "convention" in k.lower())
    text = f"{stated} {words(row.get('family'))}"
    model = w.model
    attention = 12.0 * len(model.layer_kinds()) * model.num_attention_heads * model.attention_head_dim * w.seq_len
    halved = re.search(r"(?<!non-)(?<!not )causal|halved|maxtext|bridge|v7x", text) is not None
    halved = halved and re.search(r"not halved|non-causal|full \(non", text) is None
    hardware = "hardware" in metric or "hfu" in metric
    if re.search(r"96\s*\*?\s*b|narayanan|korthikanti", text) or (hardware and "incl. recompute" in text):
        total = narayanan_flop(model, w.sequences, w.seq_len)
        if not hardware and "narayanan" not in text:
            total *= 0.75

        def flop(result: TrainingResult) -> float:
            return total
    elif hardware:

        def flop(result: TrainingResult) -> float:
            return result.hardware_tflops_per_device * 1e12 * result.step_time_s * w.devices
    else:

        def flop(result: TrainingResult) -> float:
            full = result.model_tflops_per_device * 1e12 * result.step_time_s * w.devices
            return full - (0.5 * attention * w.tokens if halved else 0.0)

    if "mfu" in metric or "hfu" in metric:
        percent = 100.0 if "pct" in metric or value > 1.5 else 1.0
        return Target(
            metric,
            unit,
            value,
            lambda r: percent * flop(r) / r.step_time_s / w.devices / _peak(r),
        )
    over = 1 if "total" in metric or metric == "tflops" else w.devices
    return Target(metric, unit, value, lambda r: flop(r) / r.step_time_s / over / 1e12)


def _peak(result: TrainingResult) -> float:
    """Dense peak that the simulator itself used, FLOP/s."""
    return result.model_tflops_per_device * 1e12 / result.mfu if result.mfu else float("nan")


def narayanan_flop(model: ModelSpec, sequences: float, seq_len: int) -> float:
    """FLOPs of one step with full recomputation: 96·B·s·l·h²·(1 + s/6h + V/16lh).

    Source: Narayanan et al. 2021 (arXiv 2104.04473), equation 3.
    """
    h, layers, vocabulary = model.hidden_size, model.num_hidden_layers, model.vocab_size
    return 96.0 * sequences * seq_len * layers * h**2 * (1 + seq_len / (6 * h) + vocabulary / (16 * layers * h))
