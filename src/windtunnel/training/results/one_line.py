"""One-line descriptions of a result's scenario and plan, shared by the terminal and the HTML report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal

from windtunnel.quantities import dollars, gib, percent, probability

if TYPE_CHECKING:
    from windtunnel.training.results.records import Interval, NextMeasurement
    from windtunnel.training.results.training_result import TrainingResult

_SURE: Final = 0.95
_LIKELY: Final = 0.8
"""Probabilities from which a verdict on memory is stated without `probably`, and from which it is green."""
_AXES = ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "zero", "mbs")


def workload_line(result: TrainingResult) -> str:
    """Model, cluster, sequence length, batch and precision."""
    data = result.scenario
    training = data.get("training") or {}
    parts = [model_text(data.get("model")), cluster_text(data.get("cluster"), result.num_devices)]
    if "seq_len" in training:
        parts.append(f"sequence {training['seq_len']:,}")
    if "global_batch" in training:
        parts.append(f"global batch {training['global_batch']:,}")
    parts += [str(training[key]) for key in ("precision", "framework") if training.get(key)]
    return " · ".join(part for part in parts if part)


def plan_line(plan: dict[str, Any]) -> str:
    """Axis sizes above one, then schedule, recomputation and sharding."""
    shown = []
    for axis in _AXES:
        value = plan.get(axis)
        if value is None or (value == 1 and axis not in ("tp", "pp", "dp", "mbs", "zero")):
            continue
        shown.append(f"{axis} {value}")
    if plan.get("sp"):
        shown.append("sp")
    if plan.get("schedule") and plan.get("pp", 1) != 1:
        shown.append(str(plan["schedule"]))
    recompute = recompute_text(plan.get("recompute"))
    if recompute:
        shown.append(f"recompute {recompute}")
    return " · ".join(shown)


def recompute_text(value: Any) -> str:
    """What is recomputed: `none`, `full`, `modules: core_attn, mlp`."""
    if isinstance(value, dict):
        text = str(value.get("policy", ""))
        if value.get("modules"):
            text += ": " + ", ".join(value["modules"])
        if value.get("num_layers") is not None:
            counts = value["num_layers"]
            shown = " ".join(map(str, counts)) if isinstance(counts, list | tuple) else counts
            text += f", {shown} layers"
        return text
    return "" if value is None else str(value)


def fit_line(result: TrainingResult) -> str:
    """Whether it fits, with the probability; by how much, and when it does not, which tensors are largest."""
    memory = result.memory
    room = memory.capacity_bytes - memory.peak_reserved_bytes
    words = fit_words(memory.fit_probability, fits=result.memory_fits)
    if result.memory_fits:
        return f"{words}, {gib(room)} free"
    if memory.overfull:
        name, size, share = memory.overfull[0]
        return f"does not fit: offloading takes {gib(size)} of {name} a device, of {gib(share)}"
    largest = sorted(memory.at_peak.items(), key=lambda item: -item[1])[:3]
    named = ", ".join(f"{kind} {gib(size)}" for kind, size in largest)
    by = f"{gib(room)} free as predicted" if room >= 0 else f"{gib(-room)} too much"
    return f"{words}: {by}; largest: {named}"


def fit_words(chance: float | None, *, fits: bool) -> str:
    """The verdict on memory with the probability of what it says.

    Args:
        chance: probability that it fits; None where it is not known.
        fits: what all commands decide by (`MemoryReport.fits`).

    Example:
        >>> fit_words(0.89, fits=True), fit_words(0.02, fits=False), fit_words(None, fits=True)
        ('probably fits (89 %)', 'out of memory (98 %)', 'fits')
    """
    said = chance if chance is None or fits else 1.0 - chance
    word = "fits" if fits else "out of memory"
    return word if said is None else f"{'' if said >= _SURE else 'probably '}{word} ({probability(said)})"


def fit_tone(chance: float | None, *, fits: bool) -> Literal["good", "warn", "bad"]:
    """Colour of the verdict on memory: by the probability that it fits."""
    if not fits:
        return "bad"
    return "good" if chance is None or chance >= _LIKELY else "warn"


def band_text(band: Interval | None) -> str:
    """An interval of bytes in words; empty without one."""
    return "" if band is None else f"{100 * band.level:.0f} %: {gib(band.low)} to {gib(band.high)}"


def next_lines(found: NextMeasurement | None) -> tuple[str, str] | None:
    """What would narrow the interval most and by how much, and its command; None where nothing is proposed."""
    if found is None:
        return None
    now, then = (percent(math.expm1(x), 0) for x in (found.half_width, found.half_width_after))
    return f"{found.what} would narrow the interval from ± {now} to ± {then}", found.command


def power_line(result: TrainingResult) -> str:
    """Mean watts, the clock that the power cap allows, joules and money per token; empty where nothing is known."""
    if not result.mean_power_w:
        return ""
    parts = [f"clock at {100 * result.clock:.0f} % of nominal" if result.clock < 0.9995 else "clock not limited"]
    parts.append(f"{result.energy_per_token_j:.3g} J per token")
    if result.cost_per_million_tokens is not None:
        parts.append(f"{dollars(result.cost_per_million_tokens)} per million tokens at the device's list price")
    return "; ".join(parts)


def model_text(model: Any) -> str:
    """Name of a model, or the file it comes from."""
    if isinstance(model, dict):
        return str(model.get("name") or model.get("config") or "model")
    return str(model or "")


def cluster_text(cluster: Any, num_devices: int) -> str:
    """Devices of a cluster, counted."""
    if isinstance(cluster, dict) and cluster.get("groups"):
        return " + ".join(_group(group) for group in cluster["groups"])
    if isinstance(cluster, dict):
        device = cluster.get("device")
        name = device.get("id") if isinstance(device, dict) else device
        return f"{num_devices:,} × {name}"
    return f"{cluster} ({num_devices:,} devices)" if cluster else f"{num_devices:,} devices"


def _group(group: Any) -> str:
    """One line on one device group of a heterogeneous cluster."""
    if not isinstance(group, dict):
        return str(group)
    return cluster_text(group, group.get("nodes", 1) * group.get("devices_per_node", 8))
