"""Warnings of a simulated step: memory that does not fit, and power caps that no clock reaches."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.quantities import probability
from windtunnel.training.results.records import MemoryReport
from windtunnel.training.step_figures.power import device_power_w
from windtunnel.training.step_setup import PreparedStep

_DOUBTFUL = 0.9
"""Probability to fit below which a step that is said to fit carries a warning."""


def step_warnings(x: PreparedStep, reports: Sequence[MemoryReport], step_s: float) -> tuple[str, ...]:
    """Warnings of all groups, each with the group's name where there are several.

    Args:
        x: The step.
        reports: Memory of each group.
        step_s: Seconds of the step.
    """
    warnings: list[str] = []
    for group, memory in zip(x.members, reports, strict=True):
        where = f"{group.cluster.name}: " if x.groups else ""
        warnings += [where + text for text in _memory_warnings(memory)]
        cap_w, drawn_w = group.cluster.power_cap_w, device_power_w(group, step_s)
        if cap_w is not None and drawn_w > 1.01 * cap_w:
            cap = f"{where}cluster.power_cap_w {cap_w:g} W is not reached"
            warnings.append(f"{cap}: at the lowest clock simulated, {group.clock:.0%}, a device draws {drawn_w:.0f} W")
    return tuple(warnings)


def _memory_warnings(memory: MemoryReport) -> tuple[str, ...]:
    """What does not fit, or nearly does not."""
    out = []
    for name, size, room in memory.overfull:
        needs, has = size / 2**30, room / 2**30
        out.append(f"does not fit: offloading needs {needs:.0f} GiB of {name} a device, and the node has {has:.0f}")
    share = memory.peak_reserved_bytes / memory.capacity_bytes
    if share > 1:
        over = (memory.peak_reserved_bytes - memory.capacity_bytes) / 2**30
        largest = sorted(memory.at_peak.items(), key=lambda kv: -kv[1])[:2]
        named = " and ".join(f"{kind} {size / 2**30:.1f} GiB" for kind, size in largest)
        out.append(
            f"does not fit: stage {memory.stage} needs {over:.1f} GiB more than the device has; largest are {named}"
        )
    elif memory.fit_probability is not None and not memory.likely:
        size, room = memory.peak_reserved_bytes / 2**30, memory.capacity_bytes / 2**30
        chance = f"the probability that it fits is {probability(memory.fit_probability)}"
        out.append(f"does not fit, more likely than not: {size:.1f} of {room:.1f} GiB are reserved; {chance}")
    elif memory.allocator_retries:
        times = memory.allocator_retries
        out.append(f"the allocator has to release and search {times} times; that time is not in the step")
    elif share > 0.95:
        out.append("within 5 % of device memory: allocator retries are likely and are not in the step time")
    if not out and memory.fit_probability is not None and memory.fit_probability < _DOUBTFUL:
        out.append(f"may run out of memory: the probability that it fits is {probability(memory.fit_probability)}")
    return tuple(out)
