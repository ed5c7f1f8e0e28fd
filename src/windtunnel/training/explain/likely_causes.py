"""Which single difference between a prediction and the run would best explain the measured step, with its probability.

Every hypothesis says how long the step would take if it held, and how far a right prediction would still be off:

* another value of a setting: the simulated step, and the error of the model where the configuration is known;
* a coefficient that is off: the prediction, and in square the effect of the coefficient's standard error;
* nothing in particular: the prediction, and the error of the model;
* something that is not simulated: the prediction, and how far families of runs lie apart that nobody measured.

Hypotheses about one subject share its weight. Subjects weigh alike, no difference at all weighs more; what the scenario
states, what would not fit in memory and power caps weigh less. The rest is Bayes' rule on the measured step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.training.explain.gap_hypotheses import Candidate, Uncertain

MODEL_ERROR = 0.04
"""Standard deviation of log(predicted / measured) where the configuration is known: the model leaves a median of 3 to
4 % (docs/accuracy/training.md), and runs of one job lie 1 to 3 % apart."""
OTHER_ERROR = 0.2
"""The same for runs whose family nobody measured: the 80 % interval between families is ± 0.26 wide."""
DOUBTFUL = 0.2
"""Weight of an alternative to what the scenario states, or that would not fit in memory, next to one that is open."""
AS_WRITTEN = 4.0
"""Weight of a run as predicted, next to one in which a given subject differs: a default is right four times in five."""
_RARE = ("cluster.power_cap_w",)
"""Settings that are left open because they are seldom used; they weigh as what is stated."""
_AS_MEASURED = 0.002
"""Largest difference, in logarithms, that a sentence calls none."""
_LEAST_PROBABILITY = 0.02
_NOTHING, _OTHER = "the model's own error", "something that is not simulated"
_SUBJECTS = {
    "plan.recompute": "recomputation",
    "plan.overlap": "overlap",
    "plan": "the mapping",
    "training.precision": "the precision",
    "training.framework": "the software whose fits are used",
    "training.attention": "the attention kernel",
    "training.cuda_graphs": "launches of kernels by the host",
    "training.compile": "compiled kernels",
    "training.mean_document_length": "attention within documents",
    "training.moe_dispatcher": "how experts are reached",
    "training.expert_load": "the load of experts",
    "training": "settings of the training",
    "cluster.scale_out": "the network",
    "cluster.power_cap_w": "a power cap",
    "host_kernel_s": "launches of kernels by the host",
    "operator_host_s": "launches of kernels by the host",
    "host": "launches of kernels by the host",
    "moe_sync_s": "launches of kernels by the host",
    "unaligned_fraction": "products whose sizes are no multiple of eight",
    "gemm": "the rate of matrix products",
    "attention": "the rate of attention kernels",
    "memory": "the rate of memory-bound kernels",
    "scale_up": "the links inside a node",
    "scale_out": "the network",
    "gather_exposed": "overlap",
}
"""Start of a scenario field or of a coefficient → what a difference in it is about; the longest start that matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A subject that may explain the gap, by its most likely alternative."""

    subject: str
    name: str
    """Scenario field or coefficient; empty where none is meant."""
    value: str
    """Value that the prediction uses."""
    alternative: str
    step_time_s: float
    """The step under the alternative."""
    residual: float
    """Logarithm of the measured step over that step."""
    probability: float
    """Of the subject, all its alternatives together."""
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class _Hypothesis:
    subject: str
    weight: float
    """Before the measurement, relative to the others."""
    step_time_s: float
    sigma: float
    """Standard deviation of log(measured / step) where the hypothesis holds."""
    setting: Candidate | None = None
    coefficient: Uncertain | None = None

    def evidence(self, measured_s: float) -> float:
        """Weight times the density of the measured step, in logarithms."""
        return self.weight * math.exp(-0.5 * self._off(measured_s) ** 2) / self.sigma

    def log_evidence(self, measured_s: float) -> float:
        """Its logarithm, also where no float holds it."""
        return math.log(self.weight / self.sigma) - 0.5 * self._off(measured_s) ** 2

    def _off(self, measured_s: float) -> float:
        """Standard deviations between the measured step and this one."""
        return math.log(measured_s / self.step_time_s) / self.sigma


def subject_of(name: str) -> str:
    """What a difference in a scenario field or a coefficient is about."""
    starts = [start for start in _SUBJECTS if name.startswith(start)]
    return _SUBJECTS[max(starts, key=len)] if starts else name.replace("_", " ")


def likely_causes(
    settings: Sequence[Candidate], uncertain: Sequence[Uncertain], step_time_s: float, measured_s: float
) -> tuple[Cause, ...]:
    """Causes of a gap, the most likely first; those below two per cent are left out.

    Args:
        settings: Alternatives to settings, all of them, simulated.
        uncertain: Coefficients with the effect of their standard errors.
        step_time_s: The predicted step time.
        measured_s: The measured one.
    """
    found = [*_settings(settings), *_coefficients(uncertain, step_time_s)]
    found += [
        _Hypothesis(_NOTHING, AS_WRITTEN, step_time_s, MODEL_ERROR),
        _Hypothesis(_OTHER, 1.0, step_time_s, math.hypot(MODEL_ERROR, OTHER_ERROR)),
    ]
    evidence = [h.evidence(measured_s) for h in found]
    if not sum(evidence):  # the measured step is so far off that every density is too small for a float
        logs = [h.log_evidence(measured_s) for h in found]
        evidence = [math.exp(one - max(logs)) for one in logs]
    total = sum(evidence)
    by_subject: dict[str, list[tuple[float, _Hypothesis]]] = {}
    for share, h in zip(evidence, found, strict=True):
        by_subject.setdefault(h.subject, []).append((share / total, h))
    causes = [_cause(own, step_time_s, measured_s) for own in by_subject.values()]
    return tuple(sorted((c for c in causes if c.probability >= _LEAST_PROBABILITY), key=lambda c: -c.probability))


def _settings(settings: Sequence[Candidate]) -> Iterator[_Hypothesis]:
    """Alternatives of one subject share its weight."""
    by_subject: dict[str, list[Candidate]] = {}
    for one in settings:
        by_subject.setdefault(subject_of(one.name), []).append(one)
    for subject, own in by_subject.items():
        for one in own:
            doubt = DOUBTFUL if one.stated or one.name in _RARE else 1.0
            doubt *= DOUBTFUL if one.note else 1.0
            yield _Hypothesis(subject, doubt / len(own), one.step_time_s, MODEL_ERROR, setting=one)


def _coefficients(uncertain: Sequence[Uncertain], step_time_s: float) -> Iterator[_Hypothesis]:
    """Coefficients share the weight of one subject: their errors are small by the fits that set them."""
    for one in uncertain:
        width = math.hypot(MODEL_ERROR, one.step_change_s / step_time_s)
        subject = subject_of(one.entry.name)
        yield _Hypothesis(subject, 1.0 / len(uncertain), step_time_s, width, coefficient=one)


def _cause(own: Sequence[tuple[float, _Hypothesis]], step_time_s: float, measured_s: float) -> Cause:
    """The cause that the hypotheses of one subject make together."""
    probability = sum(share for share, _ in own)
    best = max(own, key=lambda item: item[0])[1]
    one, coefficient = best.setting, best.coefficient
    residual = math.log(measured_s / best.step_time_s)
    name = value = alternative = ""
    if one is not None:
        name, value, alternative = one.name, one.value, one.alternative
        known = "as stated" if one.stated else "as assumed"
        off = f"{abs(math.expm1(residual)):.1%}".replace("%", " %")
        side = "shorter" if residual > 0 else "longer"
        agrees = "as long as measured" if abs(residual) < _AS_MEASURED else f"{off} {side} than measured"
        sentence = f"{best.subject}: {name} {alternative} instead of {value} {known}; the step is then {agrees}"
        sentence += f", but {one.note}" if one.note else ""
    elif coefficient is not None:
        name, value = coefficient.entry.name, f"{coefficient.entry.value:.4g}"
        errors = (measured_s - step_time_s) / coefficient.step_change_s
        sentence = f"{best.subject}: {name} = {value} would be {abs(errors):.1f} standard errors off"
    else:
        sentence = best.subject
    return Cause(
        subject=best.subject,
        name=name,
        value=value,
        alternative=alternative,
        step_time_s=best.step_time_s,
        residual=residual,
        probability=probability,
        sentence=sentence,
    )
