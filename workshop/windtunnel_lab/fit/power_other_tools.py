"""Other ways to tell the power of a served model: constants, and forms of other tools, restated.

Sources: splitwise-sim (github.com/Mutinifni/splitwise-sim, 380 W for an H100 that decodes); mlsysim 0.3 and its
predecessors (idle and board power by model FLOPs utilisation); EcoLogits 0.11 (energy of a token by active parameters
and batch, per device). Each is given the measured time between tokens.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.cost.clock import idle_w
from windtunnel_lab.fit.power_samples import Run, Sample

Predict = Callable[[Sample, Run], float]
"""Watts of one device in a run of a sample."""

_WH_J = 3600.0


def constant(rest: list[Sample]) -> Predict:
    """One number of watts, the one with the least mean error on the other models."""
    known = np.sort([s.watts for s in rest])
    best = float(min(known, key=lambda w: float(np.abs(w / known - 1.0).mean())))
    return lambda s, run: best


def board(_: list[Sample]) -> Predict:
    """The board's power of the data sheet."""
    return lambda s, run: s.device.tdp_w or math.nan


def splitwise(_: list[Sample]) -> Predict:
    """The constant of splitwise-sim; it has none for later devices."""
    return lambda s, run: 380.0 if s.device.generation == "hopper" else math.nan


def _utilisation(s: Sample) -> float:
    return 2.0 * s.active_parameters * s.batch / (s.itl_s * s.devices * s.device.peak("bf16"))


def idle_to_board(_: list[Sample]) -> Predict:
    """Idle watts to board power by model FLOPs utilisation."""

    def predict(s: Sample, _run: Run) -> float:
        return idle_w(s.device) + ((s.device.tdp_w or 0.0) - idle_w(s.device)) * _utilisation(s)

    return predict


def mlsysim(_: list[Sample]) -> Predict:
    """0.3 to 1 of the board power by model FLOPs utilisation."""
    return lambda s, run: (s.device.tdp_w or 0.0) * (0.3 + 0.7 * _utilisation(s))


WAYS = {
    "one constant, the best of other models": constant,
    "board power": board,
    "Splitwise, 380 W": splitwise,
    "idle + (board − idle) · MFU": idle_to_board,
    "mlsysim, 0.3 + 0.7 · MFU of the board": mlsysim,
}


def ecologits(found: list[Sample]) -> Floats:
    """Errors of EcoLogits' joules per token, times devices; it predicts no watts."""
    out = []
    for s in found:
        if math.isfinite(s.joules) and math.isfinite(s.active_parameters):
            each = 1.1665e-6 * math.exp(-0.011206 * s.batch) * s.active_parameters / 1e9 + 4.053e-5
            out.append(each * _WH_J * s.devices / s.joules - 1.0)
    return np.array(out)
