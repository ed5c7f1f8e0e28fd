"""A prediction next to a profiler's trace, by kind of kernel, and what could account for the difference.

A trace knows kernels, not purposes: recomputed products are products, and a gather of tensor parallelism looks like one
of data parallelism. So both sides are summed by kind of kernel. Waiting for another stage shows as a send-receive
kernel that spins, so the predicted bubble stands next to it; time without any kernel stands next to what the host
costs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from windtunnel.importers.kernel_names import COLLECTIVES, COMPUTE

if TYPE_CHECKING:
    from windtunnel.importers.kineto import KernelTrace
    from windtunnel.training.explain.gap_hypotheses import Candidate
    from windtunnel.training.explain.time_chain import Chain
    from windtunnel.training.results.training_result import TrainingResult

IDLE = "no kernel runs"
WAIT = "send-receive"
_PART = re.compile(r"\b(v100|a100|a800|a40|a10g?|h100|h800|h200|h20|gh200|gb200|gb300|b200|b300|l40s?|mi\d{3}x?)\b")
_MATTERS = 0.01
"""Share of the step from which a class's difference gets a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRow:
    """One kind of kernel. Seconds of one step."""

    kernel: str
    predicted_s: float
    """On the critical path."""
    measured_s: float
    predicted_busy_s: float
    measured_busy_s: float
    predicted_kernels: float
    measured_kernels: int
    reason: str = ""

    @property
    def difference_s(self) -> float:
        """Measured minus predicted, exposed."""
        return self.measured_s - self.predicted_s

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "class": self.kernel,
            "predicted_s": self.predicted_s,
            "measured_s": self.measured_s,
            "difference_s": self.difference_s,
            "predicted_busy_s": self.predicted_busy_s,
            "measured_busy_s": self.measured_busy_s,
            "predicted_kernels": self.predicted_kernels,
            "measured_kernels": self.measured_kernels,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class TraceComparison:
    """Rows sum to the two step times."""

    trace: KernelTrace
    rows: tuple[TraceRow, ...]
    better: tuple[tuple[Candidate, float], ...] = ()
    """Alternatives whose classes lie closer to the trace, with the share of the distance they remove, best first."""
    hints: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "trace": self.trace.to_dict(),
            "rows": [row.to_dict() for row in self.rows],
            "better": [candidate.to_dict() | {"closer": share} for candidate, share in self.better],
            "hints": list(self.hints),
        }


def predicted_kernels(chain: Chain) -> dict[str, tuple[float, float, float]]:
    """Kind of kernel → (exposed seconds, busy seconds, launches); the exposed parts sum to the step."""
    exposed: defaultdict[str, float] = defaultdict(float)
    busy: defaultdict[str, float] = defaultdict(float)
    count: defaultdict[str, float] = defaultdict(float)
    for term in chain.terms:
        kernel = IDLE if term.time_class == "host" else term.kernel or term.time_class
        exposed[kernel] += term.exposed_s
        if kernel != IDLE:
            busy[kernel] += term.busy_s
        if term.sheet is not None and not term.name.startswith("casts"):
            count[kernel] += term.count
    compute = sum(exposed[name] for name in COMPUTE)
    told = sum(exposed.values())
    for name, seconds in chain.exposed.items():
        if name == "bubble":
            exposed[WAIT] += seconds
        elif name == "slowed by overlap" and compute > 0:
            for kernel in COMPUTE:
                exposed[kernel] += seconds * exposed[kernel] / compute
    # rounding, and classes that no term claims
    exposed[IDLE] += chain.step_time_s - sum(exposed.values()) if told else 0.0
    names = {name for name, value in exposed.items() if abs(value) > 1e-9 * chain.step_time_s} | set(busy)
    return {name: (exposed[name], busy[name], count[name]) for name in sorted(names)}


def compare_with_trace(chain: Chain, trace: KernelTrace, result: TrainingResult | None = None) -> TraceComparison:
    """Both steps by kind of kernel, largest difference first. With a result, also whether the two are of one run."""
    ours = predicted_kernels(chain)
    theirs = {name: (c.exposed_s, c.busy_s, c.kernels) for name, c in trace.classes.items()}
    theirs[IDLE] = (trace.idle_s, 0.0, 0)
    rows = []
    for name in sorted({*ours, *theirs}):
        ours_s, ours_busy, launches = ours.get(name, (0.0, 0.0, 0.0))
        theirs_s, theirs_busy, kernels = theirs.get(name, (0.0, 0.0, 0))
        row = TraceRow(
            kernel=name,
            predicted_s=ours_s,
            measured_s=theirs_s,
            predicted_busy_s=ours_busy,
            measured_busy_s=theirs_busy,
            predicted_kernels=launches,
            measured_kernels=kernels,
        )
        rows.append(replace(row, reason=_reason(row, chain, trace.step_time_s)))
    rows.sort(key=lambda row: -abs(row.difference_s))
    return TraceComparison(trace, tuple(rows), hints=tuple(_hints(chain, trace, result)))


def _reason(row: TraceRow, chain: Chain, measured_step_s: float) -> str:
    if abs(row.difference_s) < _MATTERS * measured_step_s:
        return ""
    if row.kernel == IDLE:
        return "launches, reads and data loading on the host" if row.difference_s > 0 else "fewer launches than assumed"
    if row.kernel == WAIT and row.difference_s > 0:
        return "another stage or rank is late, or hops are slower"
    if row.predicted_busy_s <= 0:
        return "not in the prediction"
    if row.measured_busy_s <= 0:
        return "none in the trace"
    ratio = row.measured_busy_s / row.predicted_busy_s
    if row.kernel in COLLECTIVES and abs(ratio - 1) < 0.1:
        return "as busy as predicted, but " + ("less hidden" if row.difference_s > 0 else "better hidden")
    counts = row.measured_kernels / row.predicted_kernels if row.predicted_kernels else 1.0
    if row.kernel in ("gemm", "attention") and counts > 1.2 and ratio > 1.1:
        return f"{counts:.1f} times the kernels: recomputed, or cut"
    return _implied(row, chain, ratio)


def _implied(row: TraceRow, chain: Chain, ratio: float) -> str:
    """The coefficient that the measured busy time implies, if the work is as predicted."""
    mine = [t for t in chain.terms if (t.kernel or t.time_class) == row.kernel and t.sheet and t.coefficients]
    if not mine:
        return f"busy {ratio:.2f} times as long as predicted"
    largest = max(mine, key=lambda t: t.busy_s)
    entry = largest.coefficients[-1] if row.kernel in COLLECTIVES else largest.coefficients[0]
    implied = entry.value / ratio
    sigmas = abs(implied / entry.value - 1) / entry.width
    return f"{entry.name} {implied:.3g} for {entry.value:.3g} ({sigmas:.1f} σ)"


def _hints(chain: Chain, trace: KernelTrace, result: TrainingResult | None) -> list[str]:
    hints = []
    if result is not None:
        if trace.world_size is not None and trace.world_size != result.num_devices:
            hints.append(f"the trace is of {trace.world_size:,} ranks, the scenario has {result.num_devices:,} devices")
        named = _PART.search(trace.device.lower())
        if named and named[0] not in chain.device.lower():
            hints.append(f"the trace was recorded on {trace.device}, the scenario has {chain.device}")
        if int(result.plan.get("pp", 1) or 1) > 1:
            hints.append(f"the prediction is of stage {chain.stage}, which finishes last: take a rank of that stage")
    ratio = chain.step_time_s / trace.step_time_s
    if ratio > 1.8 and abs(ratio - round(ratio)) < 0.15 * round(ratio):
        hints.append(
            f"the predicted step is about {round(ratio)} times a ProfilerStep: is step() called per micro-batch?"
        )
    if sum(s for _, s in trace.unknown) > 0.02 * trace.step_time_s:
        names = ", ".join(f"{name[:60]} ({seconds:.3g} s)" for name, seconds in trace.unknown[:3])
        hints.append(f"kernels that no rule knows: {names}")
    return hints


def distance(chain: Chain, trace: KernelTrace) -> float:
    """Sum over kinds of kernel of what the exposed seconds differ by."""
    return sum(abs(row.difference_s) for row in compare_with_trace(chain, trace).rows)
