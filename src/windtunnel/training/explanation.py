"""Why a step takes as long as it does: the chain from data sheet to second, and what accounts for a measurement.

`explain` works on a result alone (a stored one, say); `explain_source` simulates, so it also has the chain, the
candidates that explain a gap, and the comparison with a profiler's trace.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput
from windtunnel.quantities import LEAST_S, MOST_S, percent, read_seconds, seconds
from windtunnel.training.results.charts import ordered_breakdown
from windtunnel.training.results.one_line import fit_line, next_lines
from windtunnel.versions import RESULT_SCHEMA

if TYPE_CHECKING:
    from windtunnel.importers.kineto import KernelTrace
    from windtunnel.scenarios.source import Source
    from windtunnel.training.explain.gap_hypotheses import Candidate, Uncertain
    from windtunnel.training.explain.likely_causes import Cause
    from windtunnel.training.explain.time_chain import Chain
    from windtunnel.training.explain.trace_gap import TraceComparison
    from windtunnel.training.results.training_result import TrainingResult

_RELEVANT = 0.01
_PLAUSIBLE = 0.5
"""Largest relative change of a resource that is offered as an explanation."""
_TRACES_TRIED = 6
"""Alternatives whose classes are compared with a trace."""


@dataclass(frozen=True, slots=True)
class ClassGap:
    """One class of time that could account for the whole gap by itself."""

    time_class: str
    predicted_s: float
    needed_s: float
    """What it would have to take for the step to match the measurement."""
    factor: float
    """needed / predicted."""
    error_s: float | None = None
    """Standard error of the class from its coefficients, None where the chain is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a prediction says in words and numbers. Seconds."""

    result: TrainingResult
    statements: tuple[str, ...]
    against_s: float | None = None
    gap_s: float | None = None
    """Measured minus predicted."""
    inside_interval: bool | None = None
    classes: tuple[ClassGap, ...] = ()
    """Ordered by how little each would have to change."""
    resources: dict[str, float] = field(default_factory=dict)
    """Resource → relative change of it that would close the gap by itself, to first order (−0.1: 10 % less of it than
    assumed). Only changes of at most one half are listed."""
    assumptions: tuple[tuple[str, str, str], ...] = ()
    chain: Chain | None = None
    causes: tuple[Cause, ...] = ()
    """What may explain a measured step, the most likely first; the probabilities of all sum to at most one."""
    candidates: tuple[Candidate, ...] = ()
    """Settings left open and coefficients that move the step towards the measurement, best first, all simulated."""
    uncertain: tuple[Uncertain, ...] = ()
    trace: TraceComparison | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "schema_version": RESULT_SCHEMA,
            "scenario_name": self.result.scenario_name,
            "step_time_s": self.result.step_time_s,
            "interval": {
                "level": self.result.interval.level,
                "low": self.result.interval.low,
                "high": self.result.interval.high,
                "basis": self.result.interval.basis,
                "grade": self.result.interval.grade,
            },
            "measure_next": self.result.to_dict()["measure_next"],
            "bound_by": self.result.bound_by,
            "breakdown": dict(self.result.breakdown),
            "statements": list(self.statements),
            "against_s": self.against_s,
            "gap_s": self.gap_s,
            "inside_interval": self.inside_interval,
            "classes": [
                {
                    "class": c.time_class,
                    "predicted_s": c.predicted_s,
                    "error_s": c.error_s,
                    "needed_s": c.needed_s,
                    "factor": c.factor,
                }
                for c in self.classes
            ],
            "causes": [c.to_dict() for c in self.causes],
            "candidates": [c.to_dict() for c in self.candidates],
            "uncertain": [u.to_dict() for u in self.uncertain],
            "resources": dict(self.resources),
            "assumptions": [{"field": f, "value": v, "why": w} for f, v, w in self.assumptions],
            "chain": None if self.chain is None else self.chain.to_dict(),
            "trace": None if self.trace is None else self.trace.to_dict(),
        }


def read_against(text: str | float | Path) -> float | Path:
    """Seconds, or the path of a trace.

    Args:
        text: a number of seconds, a text such as `1.1`, `950ms`, `14.6-14.7` (the middle counts), or a path.

    Raises:
        BadInput: a number that no step can take.
    """
    if isinstance(text, Path):
        return text
    problem = BadInput(f"--against = {text}: must be seconds above 0 such as 14.6, 950ms or 14.6-14.7, or a trace file")
    if isinstance(text, str):
        try:
            ends = read_seconds(text)
        except ValueError:
            raise problem from None
        if ends is not None:
            return sum(ends) / 2
        number = re.match(r"^[-+]?[0-9.]", text) and not text.lower().endswith((".json", ".gz"))
        if not text.strip() or (number and not Path(text).exists()):
            raise problem
        return Path(text)
    if not LEAST_S <= text <= MOST_S:
        raise problem
    return float(text)


def explain(result: TrainingResult, against_s: float | None = None) -> Explanation:
    """Explain a prediction, and if a measured step time is given, the gap to it, from the result alone.

    A gap is never attributed to one cause with certainty: each class of time is listed with the factor by which it
    would have to be off for the step to match, and the assumptions that the prediction rests on next to it.

    Args:
        result: the prediction.
        against_s: a measured step time in seconds.
    """
    statements = [*_time(result), *_memory(result), *_sensitivities(result), *_measure_next(result)]
    if against_s is None:
        return Explanation(result=result, statements=tuple(statements))
    gap = against_s - result.step_time_s
    inside = result.interval.low <= against_s <= result.interval.high
    statements.append(_gap_line(result, against_s, inside))
    classes = []
    for name, value in result.breakdown.items():
        needed = value + gap
        if value > _RELEVANT * result.step_time_s and needed > 0:
            classes.append(ClassGap(name, value, needed, needed / value))
    classes.sort(key=lambda c: max(c.factor, 1 / c.factor))
    assumptions = tuple((a.field, a.value, a.why) for a in result.assumed)
    resources = _resources(result, gap / result.step_time_s)
    return Explanation(
        result=result,
        statements=tuple(statements),
        against_s=against_s,
        gap_s=gap,
        inside_interval=inside,
        classes=tuple(classes),
        resources=resources,
        assumptions=assumptions,
    )


def explain_source(
    source: Source,
    *,
    against: str | float | Path | None = None,
    overrides: Sequence[str] = (),
    chosen_by_planner: Sequence[str] = (),
) -> Explanation:
    """Simulate a scenario and explain it: the chain, and against a measurement everything that could account for it.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        against: a measured step in seconds (`14.6`, `"950ms"`), or the path of a PyTorch profiler trace.
        overrides: `key=value` settings as `--set` takes them.
        chosen_by_planner: What a planner chose because the scenario leaves it open: `plan`, or axes such as plan.tp.

    Raises:
        BadInput: everything wrong with the scenario; a trace that cannot be used.
    """
    from windtunnel.specs.batches import refuse_lengths
    from windtunnel.specs.cluster import refuse_groups
    from windtunnel.specs.run_phases import refuse_run
    from windtunnel.training.explain.build_chain import build_chain
    from windtunnel.training.predict import prepare, simulate_training

    measured = None if against is None else read_against(against)
    trace: KernelTrace | None = None
    if isinstance(measured, Path):
        from windtunnel.importers.kineto import read_kineto

        trace = read_kineto(measured)
        measured = trace.step_time_s
    prepared, scenario = prepare(source, overrides=tuple(overrides))
    refuse_groups(prepared.cluster, "`explain`")
    refuse_lengths(prepared.training.lengths, "`explain`")
    refuse_run(prepared.training.run, "`explain`")
    result = simulate_training(
        source, overrides=tuple(overrides), run=False, chosen_by_planner=tuple(chosen_by_planner)
    )
    chain = build_chain(prepared, scenario)
    plain = explain(result, measured)
    if measured is None:
        return replace(plain, chain=chain)
    from windtunnel.training.explain.gap_hypotheses import (
        coefficient_candidates,
        open_settings,
        stated_settings,
        uncertain_coefficients,
    )
    from windtunnel.training.explain.likely_causes import likely_causes

    gap = measured - result.step_time_s
    uncertain = uncertain_coefficients(prepared, scenario, chain)
    opened = open_settings(prepared, scenario, chosen_by_planner)
    stated = stated_settings(prepared, scenario)
    causes = likely_causes([*opened, *stated], uncertain, result.step_time_s, measured)
    found = [
        *opened,
        *coefficient_candidates(prepared, scenario, uncertain, gap, result.step_time_s),
    ]
    candidates = _ranked(found, gap)
    errors = _class_errors(uncertain)
    classes = tuple(replace(c, error_s=errors.get(c.time_class, 0.0)) for c in plain.classes)
    comparison = None if trace is None else _against_trace(result, chain, trace, candidates)
    return replace(
        plain,
        chain=chain,
        causes=causes,
        candidates=tuple(candidates),
        uncertain=tuple(uncertain),
        classes=classes,
        trace=comparison,
    )


def _ranked(candidates: list[Candidate], gap: float) -> list[Candidate]:
    """Those that move the step towards the measurement: plausible ones first, then by what is left of the gap."""
    kept = [c for c in candidates if abs(gap - c.change_s) < abs(gap) * 0.98]
    return sorted(kept, key=lambda c: (not c.plausible, abs(gap - c.change_s)))


def _class_errors(uncertain: list[Uncertain]) -> dict[str, float]:
    """Standard error of each class: its coefficients' effects on the step, added in squares."""
    squares: dict[str, float] = {}
    for u in uncertain:
        for name in u.classes:
            squares[name] = squares.get(name, 0.0) + (u.step_change_s / len(u.classes)) ** 2
    return {name: math.sqrt(value) for name, value in squares.items()}


def _against_trace(
    result: TrainingResult, chain: Chain, trace: KernelTrace, candidates: list[Candidate]
) -> TraceComparison:
    """The comparison, and which alternatives bring the classes closer to the trace."""
    from windtunnel.training.explain.build_chain import build_chain
    from windtunnel.training.explain.trace_gap import compare_with_trace, distance

    comparison = compare_with_trace(chain, trace, result)
    apart = distance(chain, trace)
    better = []
    for candidate in [c for c in candidates if c.made is not None][:_TRACES_TRIED]:
        assert candidate.made is not None
        closer = 1.0 - distance(build_chain(*candidate.made), trace) / apart if apart else 0.0
        if closer > 0.02:
            better.append((candidate, closer))
    better.sort(key=lambda item: (not item[0].plausible, -item[1]))
    return replace(comparison, better=tuple(better))


def _gap_line(result: TrainingResult, against_s: float, inside: bool) -> str:
    gap = against_s - result.step_time_s
    interval = result.interval
    direction = "longer" if gap > 0 else "shorter"
    line = (
        f"The measured step of {seconds(against_s)} is {percent(abs(gap) / result.step_time_s)} {direction} than "
        f"predicted, {'inside' if inside else 'outside'} the interval of the prediction "
        f"({seconds(interval.low)} to {seconds(interval.high)})"
    )
    return line + (": nothing needs explaining." if inside else ".")


def _resources(result: TrainingResult, gap: float) -> dict[str, float]:
    """Change of each resource that would move the step by the share `gap`, smallest first."""
    changes = {name: 0.1 * gap / effect for name, effect in result.sensitivities.items() if abs(effect) > 1e-6}
    kept = {name: change for name, change in changes.items() if abs(change) <= _PLAUSIBLE}
    return dict(sorted(kept.items(), key=lambda item: abs(item[1])))


def _time(result: TrainingResult) -> list[str]:
    items = ordered_breakdown(result)
    total = result.step_time_s
    named = ", ".join(f"{name} {percent(value / total)}" for name, value in items[:4])
    out = [f"A step takes {seconds(total)}, of which {named}."]
    bubble = sum(value for name, value in items if "bubble" in name)
    stages, m = int(result.plan.get("pp", 1) or 1), result.num_micro_batches
    if bubble > _RELEVANT * total and stages > 1:
        chunks = int(result.plan.get("vpp", 1) or 1)
        out.append(
            f"The pipeline is idle {percent(bubble / total)} of the step: {stages} stages of {chunks} "
            f"{'chunk' if chunks == 1 else 'chunks'} with {m} micro-batches per replica."
        )
    exposed = {name: value for name, value in items if "exposed" in name and value > _RELEVANT * total}
    if exposed:
        most = max(exposed, key=lambda name: exposed[name])
        share = percent(sum(exposed.values()) / total)
        out.append(f"Communication that computation does not hide costs {share} of the step, most of it {most}.")
    if result.bound_by:
        out.append(f"The step is bound by {result.bound_by}.")
    if result.hfu > 1.01 * result.mfu:
        out.append(f"Recomputation and other repeated work add {percent(result.hfu / result.mfu - 1)} FLOPs.")
    return out


def _memory(result: TrainingResult) -> list[str]:
    memory = result.memory
    if not memory.at_peak:
        return []
    kind, size = max(memory.at_peak.items(), key=lambda item: item[1])
    share = percent(size / memory.peak_allocated_bytes)
    return [f"Memory {fit_line(result)}; stage {memory.stage} peaks highest, {share} of it {kind}."]


def _measure_next(result: TrainingResult) -> list[str]:
    told = next_lines(result.measure_next)
    return [] if told is None else [f"Measure next: {told[0]}: {told[1]}."]


def _sensitivities(result: TrainingResult) -> list[str]:
    if not result.sensitivities:
        return []
    name, change = min(result.sensitivities.items(), key=lambda item: item[1])
    if change > -5e-4:
        return ["10 % more of any one resource would change the step by less than 0.05 %."]
    return [f"The most valuable resource is {name}: 10 % more of it shortens the step by {percent(-change)}."]
