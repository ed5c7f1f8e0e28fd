"""How batches grow while jobs run: as the gradient noise scale says, or outside critical regimes (Accordion).

Epochs, batches and data set sizes are those of the jobs of Shockwave (Zheng et al., NSDI 2023; `uw-mad-dash/shockwave`,
MIT), which were measured in training runs of each model. How much faster a batch makes a job is not among them: that is
in the table of throughputs.
"""

from __future__ import annotations

import re
from math import ceil

import numpy as np

from windtunnel.clusters.jobs import Growth, Jobs
from windtunnel.clusters.throughputs import Throughputs

EXAMPLES = {
    "ResNet-18": 50_000,
    "ResNet-50": 100_000,
    "Transformer": 10_000,
    "LM": 59_675,
    "Recommendation": 117_907,
}
"""Samples of an epoch."""
LARGEST = {"ResNet-18": 256, "ResNet-50": 128, "Transformer": 128, "LM": 80, "Recommendation": 8192}
"""Batch that still fits the device, for each device of a job."""
NOISE_SCALE: dict[tuple[str, int, int], tuple[int, ...]] = {
    ("ResNet-18", 16, 1): (31, 41, 51, 71),
    ("ResNet-18", 16, 2): (21, 31, 91, 111),
    ("ResNet-18", 16, 4): (11, 21, 81, 91),
    ("ResNet-18", 32, 1): (21, 31, 51),
    ("ResNet-18", 32, 2): (11, 21, 41),
    ("ResNet-18", 32, 4): (21, 31, 61),
    ("ResNet-18", 64, 1): (11, 31),
    ("ResNet-18", 64, 2): (21, 41),
    ("ResNet-18", 64, 4): (11, 61),
    ("ResNet-18", 128, 1): (11,),
    ("ResNet-18", 128, 2): (41,),
    ("ResNet-18", 128, 4): (11,),
    ("ResNet-50", 32, 2): (101, 111),
    ("ResNet-50", 32, 4): (131, 221),
    ("ResNet-50", 64, 1): (101,),
    ("ResNet-50", 64, 2): (81,),
    ("ResNet-50", 64, 4): (191,),
    ("LM", 5, 1): (31, 41, 61, 71),
    ("LM", 5, 2): (31, 51, 61, 71),
    ("LM", 5, 4): (11, 31, 71, 91),
    ("LM", 10, 1): (11, 21, 41),
    ("LM", 10, 2): (11, 31, 41),
    ("LM", 10, 4): (11, 31, 61),
    ("LM", 20, 1): (11, 41),
    ("LM", 20, 2): (31, 41),
    ("LM", 20, 4): (11, 61),
    ("LM", 40, 1): (11,),
    ("LM", 40, 2): (11,),
    ("LM", 40, 4): (61,),
    ("Recommendation", 512, 1): (21, 41, 71, 91),
    ("Recommendation", 1024, 1): (21, 51, 91),
    ("Recommendation", 2048, 1): (21, 41),
    ("Recommendation", 4096, 1): (41,),
}
"""Model, first batch and devices → epochs at which the batch doubles."""
LONG_HEAD, EVERY = 20, 30
HEADS = {512: 30, 1024: 30, 2048: 40, 4096: 10, 8192: 10}
"""First batch of a recommendation job → epochs of its first critical regime."""
LAST_EPOCH = 10_000
_TYPE = re.compile(r"(?P<model>.+) \(batch size (?P<batch>\d+)\)$")


def critical(model: str, first_batch: int, epochs: int) -> list[tuple[int, int]]:
    """Accordion's critical regimes, in which the batch is the first one: first epoch, and the one after the last."""
    if model == "LM":
        return [(0, 10)]
    if model == "Recommendation":
        return [(0, HEADS.get(first_batch, 10))]
    if model == "ResNet-50":
        return [(first, first + 10) for first in range(0, epochs + EVERY, EVERY)]
    if model == "ResNet-18":
        return [(0, LONG_HEAD if first_batch == LARGEST[model] else 10), (150, 160), (250, 260)]
    return [(0, LAST_EPOCH)]


def batches(model: str, first: int, devices: int, mode: str, epochs: int) -> list[tuple[int, int]]:
    """Epochs at which the batch changes, each with the batch from then on; the first entry is epoch 0."""
    out = [(0, first)]
    most = LARGEST.get(model, first)
    if first >= most:
        return out
    if mode == "gns":
        for n, epoch in enumerate(NOISE_SCALE.get((model, first, devices), ()), 1):
            out.append((epoch, min(first * 2**n, most)))
    elif mode == "accordion":
        for begin, end in critical(model, first, epochs):
            if begin > 0:
                out.append((begin, first))
            out.append((end, most))
    return [(epoch, batch) for epoch, batch in out if epoch <= epochs]


def growth_of(jobs: Jobs, table: Throughputs, reference: str) -> Growth | None:
    """Phases of each job; None where no job's batch changes.

    A batch that the table has no rate for is not taken. The change of a noise scale is decided an epoch before it is
    due, as jobs are looked at between rounds.
    """
    if jobs.steps is None or not jobs.modes or set(jobs.modes) == {"static"}:
        return None
    rows = [_phases(jobs, table, reference, j) for j in range(len(jobs))]
    width = max(len(phases) for phases, _ in rows)
    trigger = np.full((len(jobs), width), np.inf)
    speed, batch = np.ones((len(jobs), width)), np.ones((len(jobs), width))
    for j, (phases, _) in enumerate(rows):
        for p, (due, rate, size) in enumerate(phases):
            trigger[j, p], speed[j, p], batch[j, p] = due, rate, size
    return Growth(trigger_s=trigger, speed=speed, batch=batch, epoch_s=np.array([epoch for _, epoch in rows]))


def _phases(jobs: Jobs, table: Throughputs, reference: str, j: int) -> tuple[list[tuple[float, float, float]], float]:
    """(work at which it is due, speed and batch against the first) of each phase; work of an epoch."""
    kind, devices, mode = jobs.kinds[j], int(jobs.devices[j]), jobs.modes[j]
    found = _TYPE.match(kind)
    rate = table.steps_per_s[reference, kind, devices]
    assert jobs.steps is not None
    if found is None or found["model"] not in EXAMPLES:
        return [(0.0, 1.0, 1.0)], float(jobs.steps[j]) / rate
    model, first = found["model"], int(found["batch"])
    steps = ceil(EXAMPLES[model] / first)
    epoch_s = steps / rate
    epochs = ceil(float(jobs.steps[j]) / steps)
    out, ahead = [], 1 if mode == "gns" else 0
    for epoch, batch in batches(model, first, devices, mode, epochs):
        own = table.steps_per_s.get((reference, f"{model} (batch size {batch})", devices), 0.0)
        if own <= 0:
            break
        ratio = steps / ceil(EXAMPLES[model] / batch)
        due = 0.0 if epoch == 0 else (epoch - 1 - ahead) * epoch_s + 1e-6 * epoch_s
        out.append((due, own * ratio / rate, ratio))
    return out, epoch_s
