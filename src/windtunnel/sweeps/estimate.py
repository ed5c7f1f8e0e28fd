"""What a sweep is going to take, before it starts: cells that are allowed, and CPU seconds."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass

from windtunnel.commands import in_sweeps
from windtunnel.sweeps.compute import OK, Computer
from windtunnel.sweeps.definition import Definition

SAMPLE = 24
"""Cells that are tried."""
SAMPLE_S = 3.0
"""CPU seconds after which no more are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What some cells, drawn at random, tell of all of them."""

    cells: int
    tried: int
    ok_share: float
    cpu_s: float
    """Of all cells; the first cell, which loads tables, is not counted."""
    reasons: dict[str, int]
    """Why tried cells have no answer."""


def estimate(definition: Definition) -> Estimate:
    """Try a few cells."""
    cells = list(definition.cells())
    chosen = random.Random(definition.seed).sample(cells, min(SAMPLE, len(cells)))
    computer, reasons = Computer(definition), Counter[str]()
    seconds: list[float] = []
    begun = time.process_time()
    ok = 0
    for cell in chosen:
        before = time.process_time()
        row = computer.row(cell)
        seconds.append(time.process_time() - before)
        ok += row["status"] == OK
        if row["status"] != OK:
            reasons[row["reason"]] += 1
        if time.process_time() - begun > SAMPLE_S and len(seconds) > 1:
            break
    warm = seconds[1:] or [in_sweeps(definition.verb).cell_cpu_s]
    mean = sum(warm) / len(warm)
    return Estimate(
        cells=len(cells), tried=len(seconds), ok_share=ok / len(seconds), cpu_s=mean * len(cells), reasons=dict(reasons)
    )
