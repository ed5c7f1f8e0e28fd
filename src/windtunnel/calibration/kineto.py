"""A profile from a PyTorch profiler's trace: fractions that classes of kernels achieved in one step of a scenario.

Each class's coefficient is moved until the scenario's step keeps the device busy with it for as long as the trace does.
Collectives are left out: a kernel that waits for its peers looks like one that is slow (nccl-tests says what they
reach). So is idle time: the profiler itself slows the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from windtunnel.calibration.fit import Point
from windtunnel.calibration.logs import resolved
from windtunnel.calibration.profile import Calibration
from windtunnel.errors import BadInput, Problem
from windtunnel.importers.kineto import KernelTrace, read_kineto
from windtunnel.specs.device import MeasuredValue, Profile
from windtunnel.training.explain.build_chain import build_chain
from windtunnel.training.explain.time_chain import Chain
from windtunnel.training.explain.trace_gap import compare_with_trace, predicted_kernels
from windtunnel.training.prepare_step import prepare
from windtunnel.training.simulate_step import simulate_step
from windtunnel.training.step_setup import PreparedStep

CLASSES = {
    "gemm": "gemm_fraction",
    "attention": "attention_fraction",
    "memory bound": "memory_fraction",
    "optimizer": "optimizer_fraction",
}
"""Class of kernels → the coefficient that stands for its rate."""
_ROUNDS = 6
_LEAST_SHARE = 0.005
"""Share of the step below which a class of kernels says nothing worth keeping."""
_LEAST_ERROR = 0.02
"""Relative scatter of one class of kernels between steps of one run whose lengths agree."""


@dataclass(slots=True)
class _State:
    prepared: PreparedStep
    chain: Chain

    def busy(self) -> dict[str, float]:
        return {name: busy for name, (_, busy, _) in predicted_kernels(self.chain).items()}


def calibrate_from_kineto(path: Path, scenario: str, overrides: Sequence[str] = ()) -> Calibration:
    """Fractions of rates that the kernels of a traced step achieved.

    Args:
        path: trace of one rank, with ProfilerStep ranges.
        scenario: file of the step that was traced.
        overrides: `key=value` settings as `--set` takes them.

    Raises:
        BadInput: a trace or scenario that cannot be used; no class of kernels in both.
    """
    trace = read_kineto(path)
    named, model, cluster, training, plan, chosen = resolved(Path(scenario), list(overrides))

    def state(values: dict[str, float]) -> _State:
        entries = {name: MeasuredValue(value=v) for name, v in values.items()}
        known = cluster.device.profile or Profile()
        profile = known.model_copy(update={"coefficients": {**known.coefficients, **entries}})
        device = cluster.device.model_copy(update={"profile": profile}) if values else cluster.device
        prepared = prepare(model, cluster.model_copy(update={"device": device}), training, plan, chosen)
        return _State(prepared, build_chain(prepared, named))

    now = state({})
    first = compare_with_trace(now.chain, trace, simulate_step(now.prepared))
    classes = {
        name: _entries(now.chain, name)
        for name in CLASSES
        if name in trace.classes and trace.classes[name].busy_s > _LEAST_SHARE * trace.step_time_s
    }
    classes = {name: entries for name, entries in classes.items() if entries}
    if not classes:
        raise BadInput(Problem("", "shares no class of kernels with the scenario's step", file=str(path)))
    values = {e: _value(now.prepared, e) for entries in classes.values() for e in entries}
    for _ in range(_ROUNDS):
        busy = now.busy()
        for name, entries in classes.items():
            ratio = busy[name] / trace.classes[name].busy_s
            for entry in entries:
                values[entry] = min(max(values[entry] * ratio, 1e-3), 1.0)
        now = state(values)
    return _calibration(now, trace, values, classes, first.hints)


def _entries(chain: Chain, name: str) -> tuple[str, ...]:
    """Coefficients of a class's rate that its terms use."""
    key = CLASSES[name]
    mine = [t for t in chain.terms if (t.kernel or t.time_class) == name and t.busy_s > 0]
    return tuple(dict.fromkeys(c.name for t in mine for c in t.coefficients if c.name.partition(".")[0] == key))


def _value(prepared: PreparedStep, name: str) -> float:
    key, _, entry = name.partition(".")
    found = getattr(prepared.coefficients, key)
    value = float(found[entry] if entry else found)
    return value / prepared.clock if key == "gemm_fraction" else value


def _calibration(
    now: _State,
    trace: KernelTrace,
    values: dict[str, float],
    classes: dict[str, tuple[str, ...]],
    hints: Sequence[str],
) -> Calibration:
    scatter = float(np.std(trace.steps_s) / np.mean(trace.steps_s)) if len(trace.steps_s) > 2 else 0.1
    error = max(scatter, _LEAST_ERROR)
    busy, points, warnings, kept = now.busy(), [], [*hints, *trace.notes], {}
    for name, entries in classes.items():
        measured = trace.classes[name].busy_s
        points.append(Point(name, f"{trace.classes[name].kernels} kernels", measured, busy[name], 0.0))
        off = busy[name] / measured - 1.0
        if abs(off) > 0.05:
            warnings.append(
                f"{name}: the trace is busy {measured:.4g} s, the scenario's step {busy[name]:.4g} s at any rate up to "
                "the data sheet's: another amount of work; is the scenario the traced one?"
            )
            continue
        for entry in entries:
            kept[entry] = MeasuredValue(
                value=values[entry],
                relative_error=round(error, 4),
                source=f"{trace.classes[name].kernels} kernels of {Path(trace.path).name}",
            )
    device = now.prepared.cluster.device
    base = device.profile or Profile()
    plain = {k: v for k, v in base.coefficients.items() if k not in values or k in kept}
    conditions = {**base.conditions, "trace": Path(trace.path).name, "traced_step_s": trace.step_time_s}
    profile = base.model_copy(update={"coefficients": {**plain, **kept}, "conditions": conditions})
    return Calibration(device.model_copy(update={"profile": profile}), None, 1, tuple(points), 0.0, tuple(warnings))
