"""Why a step takes as long as it does, in sentences, and what could account for a measurement that differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from windtunnel.report.describe import fit_line
from windtunnel.report.quantities import percent, seconds
from windtunnel.training.figures import ordered_breakdown

if TYPE_CHECKING:
    from windtunnel.training.results import TrainingResult

_RELEVANT = 0.01
_PLAUSIBLE = 0.5
"""Largest relative change of a resource that is offered as an explanation."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One class of time that could account for the whole gap by itself."""

    time_class: str
    predicted_s: float
    needed_s: float
    """What it would have to take for the step to match the measurement."""
    factor: float
    """needed / predicted."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a prediction says in words. Seconds."""

    result: TrainingResult
    statements: tuple[str, ...]
    against_s: float | None = None
    gap_s: float | None = None
    """Measured minus predicted."""
    inside_interval: bool | None = None
    candidates: tuple[Candidate, ...] = ()
    """Ordered by how little each would have to change."""
    resources: dict[str, float] = field(default_factory=dict)
    """Resource → relative change of it that would close the gap by itself, to first order (−0.1: 10 % less of it than
    assumed). Only changes of at most one half are listed."""
    assumptions: tuple[tuple[str, str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "scenario_name": self.result.scenario_name,
            "step_time_s": self.result.step_time_s,
            "bound_by": self.result.bound_by,
            "breakdown": dict(self.result.breakdown),
            "statements": list(self.statements),
            "against_s": self.against_s,
            "gap_s": self.gap_s,
            "inside_interval": self.inside_interval,
            "candidates": [
                {"class": c.time_class, "predicted_s": c.predicted_s, "needed_s": c.needed_s, "factor": c.factor}
                for c in self.candidates
            ],
            "resources": dict(self.resources),
            "assumptions": [{"field": f, "value": v, "why": w} for f, v, w in self.assumptions],
        }


def explain(result: TrainingResult, against_s: float | None = None) -> Explanation:
    """Explain a prediction, and if a measured step time is given, the gap to it.

    A gap is never attributed to one cause with certainty: each class of time is listed with the factor by which it
    would have to be off for the step to match, and the assumptions that the prediction rests on beside it.

    Args:
        result: the prediction.
        against_s: a measured step time in seconds.
    """
    statements = [*_time(result), *_memory(result), *_sensitivities(result)]
    if against_s is None:
        return Explanation(result, tuple(statements))
    gap = against_s - result.step_time_s
    inside = result.interval.low <= against_s <= result.interval.high
    direction = "longer" if gap > 0 else "shorter"
    where = "inside" if inside else "outside"
    statements.append(
        f"The measured step of {seconds(against_s)} is {percent(abs(gap) / result.step_time_s)} {direction} than "
        f"predicted, {where} the interval of the prediction."
    )
    candidates = []
    for name, value in result.breakdown.items():
        needed = value + gap
        if value > _RELEVANT * result.step_time_s and needed > 0:
            candidates.append(Candidate(name, value, needed, needed / value))
    candidates.sort(key=lambda c: max(c.factor, 1 / c.factor))
    assumptions = tuple((a.field, a.value, a.why) for a in result.assumed)
    resources = _resources(result, gap / result.step_time_s)
    return Explanation(result, tuple(statements), against_s, gap, inside, tuple(candidates), resources, assumptions)


def _resources(result: TrainingResult, gap: float) -> dict[str, float]:
    """Change of each resource that would move the step by the share `gap`, smallest first."""
    changes = {name: 0.1 * gap / effect for name, effect in result.sensitivities.items() if abs(effect) > 1e-6}
    kept = {name: change for name, change in changes.items() if abs(change) <= _PLAUSIBLE}
    return dict(sorted(kept.items(), key=lambda item: abs(item[1])))


def explanation_summary(explanation: Explanation) -> Any:
    """The explanation as something `rich` prints."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = [Text(explanation.result.scenario_name or "training step", style="bold")]
    parts += [Padding(Text("• " + line), (0, 0, 0, 2)) for line in explanation.statements]
    if explanation.candidates:
        title = Text("\nWhat would account for the gap by itself", style="bold")
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for head in ("class of time", "predicted", "needed", "factor"):
            table.add_column(head, justify="left" if head.startswith("class") else "right", no_wrap=True)
        for c in explanation.candidates[:8]:
            table.add_row(c.time_class, seconds(c.predicted_s), seconds(c.needed_s), f"× {c.factor:.2f}")
        parts += [title, Padding(table, (0, 0, 0, 2))]
    if explanation.resources:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for name, change in explanation.resources.items():
            table.add_row(name, f"{percent(abs(change))} {'less' if change < 0 else 'more'} than assumed")
        title = Text("\nResources that would, to first order", style="bold")
        parts += [title, Padding(table, (0, 0, 0, 2))]
    if explanation.assumptions:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
        for row in explanation.assumptions:
            table.add_row(*row)
        parts += [Text("\nAssumptions to check first", style="bold"), Padding(table, (0, 0, 0, 2))]
    return Group(*parts)


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


def _sensitivities(result: TrainingResult) -> list[str]:
    if not result.sensitivities:
        return []
    name, change = min(result.sensitivities.items(), key=lambda item: item[1])
    if change > -5e-4:
        return ["10 % more of any one resource would change the step by less than 0.05 %."]
    return [f"The resource worth most is {name}: 10 % more of it shortens the step by {percent(-change)}."]
