"""One simulated change, and what makes it a line of advice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.advice.actions import Action
from windtunnel.advice.bench import Bench
from windtunnel.advice.costs import costs_of
from windtunnel.advice.objectives import Objective
from windtunnel.advice.plans import only_a_plan
from windtunnel.advice.suggestion import Suggestion
from windtunnel.errors import BadInput
from windtunnel.techniques import applied

LEAST_GAIN = 0.002
"""Relative gain from which on a change is worth a line."""
LEAST_SAVED = 0.01
"""Share of the reserved peak from which on a change counts as saving memory."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Changes and what they led to."""

    actions: tuple[Action, ...]
    result: Any
    gain: float
    fits: bool
    saved: float
    """Share of the reserved peak that they free, 0 where results say nothing of it."""
    is_plan: bool
    """Whether they are a setting of the plan, or come down to one."""

    @property
    def like_for_like(self) -> bool:
        """Whether it is the same model on the same hardware, with the same results."""
        return all(a.like_for_like for a in self.actions)

    @property
    def words(self) -> str:
        """Names and knobs."""
        return " + ".join(a.words for a in self.actions)

    @property
    def rank(self) -> tuple[bool, float]:
        """Those that run first, by gain; then those that come closest to it."""
        return self.fits, self.gain if self.fits else self.saved


def trial_of(bench: Bench, objective: Objective, actions: tuple[Action, ...], result: Any) -> Trial:
    """A result against the base."""
    gain = objective.gain(objective.value(bench.base) or 0.0, objective.value(result) or 0.0)
    before, after = bench.reserved_bytes(bench.base), bench.reserved_bytes(result)
    saved = 1.0 - after / before if before and after is not None else 0.0
    one = actions[0].technique
    is_plan = len(actions) == 1 and (one is None or only_a_plan(one, bench.replanned(result)))
    return Trial(actions, result, gain, bench.fits(result), saved, is_plan)


def distinct(trials: Sequence[Trial], framework: str) -> list[tuple[Trial, tuple[str, ...]]]:
    """Trials that come to one and the same result as one, with the words of the others, best first.

    What stands for them is a setting, else what the user's framework has, else what any framework has.
    """
    groups: dict[tuple[str, bool, str, bool], list[Trial]] = {}
    for trial in sorted(trials, key=lambda t: t.rank, reverse=True):
        key = (f"{trial.gain:.7g}", trial.fits, f"{trial.saved:.7g}", trial.like_for_like)
        groups.setdefault(key, []).append(trial)
    out = []
    for group in groups.values():
        group.sort(key=lambda t: _preference(t, framework))
        out.append((group[0], tuple(dict.fromkeys(t.words for t in group[1:]))))
    return out


def _preference(trial: Trial, framework: str) -> tuple[bool, bool, int, int]:
    known = [a.technique for a in trial.actions if a.technique is not None]
    missing = sum(not t.where for t in known)
    return bool(known), not all(framework in t.where for t in known), missing, sum(len(a.knobs) for a in trial.actions)


def conflict(a: Action, b: Action) -> bool:
    """Whether two techniques do not go together."""
    if a.technique is None or b.technique is None:
        return False
    try:
        applied((a.entry, b.entry))
    except BadInput:
        return True
    return False


def said(
    bench: Bench,
    objective: Objective,
    trial: Trial,
    kind: str,
    *,
    alike: tuple[str, ...] = (),
    among: Iterable[Trial] = (),
) -> Suggestion:
    """A trial as a line of advice.

    Args:
        bench: with today's prediction.
        objective: what is aimed at.
        trial: what was changed.
        kind: technique | setting | pair.
        alike: others that come to the same.
        among: suggestions that it may conflict with.
    """
    band = bench.band(trial.result, objective)
    ends = sorted((band.low, band.high) if objective.larger else (1.0 / band.high, 1.0 / band.low))
    before, after = bench.reserved_bytes(bench.base), bench.reserved_bytes(trial.result)
    known = [a.technique for a in trial.actions if a.technique is not None]
    single = known[0] if len(known) == 1 == len(trial.actions) else None
    changes: dict[str, Any] = {}
    for action in trial.actions:
        changes |= action.changes
    entries = [a.entry for a in trial.actions if a.technique is not None]
    if entries:
        changes["techniques"] = [*bench.scenario.get("techniques", ()), *entries]
    others = (t.actions[0] for t in among if single is not None)
    clashes = (other for other in others if other.name != trial.actions[0].name)
    step = None
    if objective.figure == "peak_memory_reserved_bytes":
        step = bench.base.step_time_s / trial.result.step_time_s - 1.0
    return Suggestion(
        names=tuple(a.name for a in trial.actions),
        words=trial.words,
        kind=kind,
        gain=trial.gain,
        low=ends[0] - 1.0,
        high=ends[1] - 1.0,
        level=band.level,
        told_apart=ends[0] > 1.0 or ends[1] < 1.0,
        basis=band.basis,
        value=objective.value(trial.result) or 0.0,
        fits=trial.fits,
        memory_change_bytes=None if before is None or after is None else after - before,
        moved=bench.moved(trial.result, objective),
        scenario=changes,
        summary=single.summary if single else "",
        paper=single.paper.line() if single else "",
        quality="; ".join(a.technique.quality for a in trial.actions if a.technique and not a.lossless),
        where=dict(single.where) if single else {},
        adds="; ".join(t.adds for t in known if t.adds),
        conflicts=tuple(dict.fromkeys(other.name for other in clashes if conflict(trial.actions[0], other))),
        missing="; ".join(f"{t.id}: {t.missing}" if single is None else t.missing for t in known if t.missing),
        alike=alike,
        replanned=bench.replanned(trial.result),
        freed=bench.freed(trial.result),
        also=bench.also(trial.result),
        costs="; ".join(dict.fromkeys(cost for t in known if (cost := costs_of(t)))),
        relieves=single.relieves if single else "",
        step_gain=step,
        assumes={
            f"{t.id}.{name}": action.knobs.get(name, knob.default)
            for action in trial.actions
            if (t := action.technique) is not None
            for name, knob in t.knobs.items()
            if knob.given and knob.default is not None and not isinstance(knob.default, bool)
        },
        papers=tuple(dict.fromkeys(t.paper.line() for t in known)),
    )
