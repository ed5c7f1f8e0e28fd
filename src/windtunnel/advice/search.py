"""The search for advice: every technique alone, its knobs, a few settings, then promising pairs; all simulated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from windtunnel.advice.actions import Action, merged, settings, techniques, variants
from windtunnel.advice.bench import Bench, ServingBench, TrainingBench, attempt
from windtunnel.advice.objectives import Objective, chosen
from windtunnel.advice.suggestion import Suggestion
from windtunnel.errors import BadInput, Infeasible
from windtunnel.importers.scenario import Source, load
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import applied

LEAST_GAIN = 0.002
"""Relative gain from which on a change is worth a line."""
LEAST_SAVED = 0.01
"""Share of the reserved peak from which on a change counts as saving memory."""
PAIRED, SAVERS = 10, 8
"""Best changes that are tried two by two; memory savers that are tried beside changes that do not fit alone."""
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Advice:
    """What would help a scenario, best first."""

    scenario_name: str
    objective: Objective
    value: float
    """The objective's figure today."""
    fits: bool
    """Whether the scenario fits in memory today."""
    bottleneck: str
    """What bounds it, in words."""
    shares: dict[str, float]
    """Class of time → share of the step (training), largest first."""
    sensitivities: dict[str, float]
    """Resource → relative change of the step with 10 % more of it (training)."""
    suggestions: tuple[Suggestion, ...]
    """Techniques that gain."""
    settings: tuple[Suggestion, ...]
    """Settings of the plan that gain without any technique: change these first."""
    pairs: tuple[Suggestion, ...]
    """Two together that gain more than either alone."""
    lost: dict[str, str]
    """Techniques that apply and gain nothing → what they change."""
    refused: dict[str, str]
    """Techniques that cannot be simulated in this scenario → why."""
    unfit: dict[str, str]
    """Techniques that do not apply → why."""
    tried: int
    """Changes simulated."""
    result: Any = field(default=None, repr=False, compare=False)
    """Today's prediction."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        lists = {n: [s.to_dict() for s in getattr(self, n)] for n in ("suggestions", "settings", "pairs")}
        return {
            "scenario_name": self.scenario_name,
            "objective": {"id": self.objective.id, "figure": self.objective.figure, "value": self.value},
            "fits": self.fits, "bottleneck": self.bottleneck, "shares": self.shares,
            "sensitivities": self.sensitivities, **lists, "lost": self.lost, "refused": self.refused,
            "unfit": self.unfit, "tried": self.tried,
        }  # fmt: skip

    def to_frame(self) -> Any:
        """Pandas frame, one row a suggestion."""
        import pandas as pd

        rows = [*self.suggestions, *self.settings, *self.pairs]
        names = ("kind", "words", "gain", "low", "high", "value", "fits", "memory_change_bytes", "quality", "basis")
        return pd.DataFrame([{n: getattr(s, n) for n in names} for s in rows])


@dataclass(frozen=True, slots=True)
class Trial:
    """Changes and what they led to."""

    actions: tuple[Action, ...]
    result: Any
    gain: float
    fits: bool
    saved: float
    """Share of the reserved peak that they free, 0 where results say nothing of it."""

    @property
    def rank(self) -> tuple[bool, float]:
        """Those that run first, by gain; then those that come closest to it."""
        return self.fits, self.gain if self.fits else self.saved


def advise(
    source: Source, *, overrides: Sequence[str] = (), objective: str | None = None, pairs: bool = True,
    report: Progress | None = None,
) -> Advice:  # fmt: skip
    """Apply every technique that suits a scenario, and rank them by what they gain.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`; with `training` or `serving`.
        overrides: `key=value` settings as `--set` takes them.
        objective: time, memory, energy, money (training); throughput, goodput, ttft, tpot, e2e, energy, money
            (serving). Absent: time; goodput where the scenario states an objective for latency, else throughput of
            closed loops and e2e of open ones.
        pairs: also try promising ones two by two.
        report: called with changes tried and to try.

    Raises:
        BadInput: everything wrong with the scenario.
        Infeasible: serving, where the model does not fit.
    """
    search = Search(*_opened(source, tuple(overrides), objective), report)
    return search.run(pairs=pairs)


def best_scenario(advice: Advice) -> dict[str, Any]:
    """The scenario with its best suggestion switched on.

    Raises:
        Infeasible: nothing gains.
    """
    found = max(
        (*advice.suggestions, *advice.settings, *advice.pairs), key=lambda s: (s.fits, s.gain), default=None
    )  # fmt: skip
    if found is None:
        raise Infeasible("nothing that was tried gains in this scenario; no file is written")
    return merged(advice.result.scenario, found.scenario)


def _opened(source: Source, overrides: tuple[str, ...], objective: str | None) -> tuple[Bench, Scenario, Objective]:
    scenario, _, _ = load(source, overrides)
    if scenario.training is None and scenario.serving is not None:
        from windtunnel.serving.simulate import simulate_serving

        goal = chosen(objective, serves=True, default=_serving_default(scenario))
        served = simulate_serving(source, overrides=overrides)
        return ServingBench(served, served.scenario), scenario, _with_figure(goal, served)
    from windtunnel.training.predict import simulate_training

    goal = chosen(objective, serves=False, default="time")
    trained = simulate_training(source, overrides=overrides)
    return TrainingBench(trained, trained.scenario), scenario, _with_figure(goal, trained)


def _serving_default(scenario: Scenario) -> str:
    serving = scenario.serving
    assert serving is not None
    if serving.slo is not None and (serving.slo.ttft_s or serving.slo.tpot_s or serving.slo.e2e_s):
        return "goodput"
    return "throughput" if serving.traffic.concurrency else "e2e"


def _with_figure(goal: Objective, result: Any) -> Objective:
    if goal.value(result) is None:
        raise BadInput(f"objective = {goal.id}: this scenario has no {goal.title}: its device states no price or watts")
    return goal


class Search:
    """One scenario, one objective."""

    def __init__(self, bench: Bench, scenario: Scenario, objective: Objective, report: Progress | None) -> None:
        self.bench, self.scenario, self.objective = bench, scenario, objective
        self.report = report
        self.before = objective.value(bench.base) or 0.0
        self.fitted = bench.fits(bench.base)
        self.tried, self.ahead = 0, 0
        self.refused: dict[str, str] = {}

    def run(self, *, pairs: bool) -> Advice:
        """Alone, with other knobs, settings, two by two."""
        serves = isinstance(self.bench, ServingBench)
        found, unfit = techniques(self.scenario, serves=serves)
        others = [] if serves else settings(self.scenario, self.bench.base.plan)
        self.ahead = len(found) + len(others)
        alone = [best for action in found if (best := self._best(action)) is not None]
        plain = [t for action in others if (t := self._try((action,))) is not None]
        ranked = sorted(alone, key=lambda t: t.rank, reverse=True)
        gaining = [t for t in ranked if self._gains(t)]
        both = self._pairs([*ranked, *plain]) if pairs else []
        lost = {t.actions[0].name: self._effect(t) for t in ranked if not self._gains(t)}
        base = self.bench.base
        shares: dict[str, float] = {}
        if not serves:
            shares = {k: float(v) / base.step_time_s for k, v in sorted(base.breakdown.items(), key=lambda x: -x[1])}
        return Advice(
            base.scenario_name, self.objective, self.before, self.fitted, base.bound_by, shares,
            {} if serves else dict(base.sensitivities), tuple(self._said(t, "technique", gaining) for t in gaining),
            tuple(self._said(t, "setting") for t in self._sorted(plain)),
            tuple(self._said(t, "pair") for t in both), lost, self.refused, unfit, self.tried, base,
        )  # fmt: skip

    def _try(self, actions: tuple[Action, ...]) -> Trial | None:
        self.tried += 1
        result, reason = attempt(self.bench, actions)
        if self.report is not None:
            self.report(self.tried, max(self.ahead, self.tried))
        if result is None:
            if len(actions) == 1:
                self.refused[actions[0].name] = reason
            return None
        after = self.objective.value(result) or 0.0
        gain = self.objective.gain(self.before, after)
        return Trial(actions, result, gain, self.bench.fits(result), self._saved(result))

    def _best(self, action: Action) -> Trial | None:
        """A technique at its best knobs, one knob at a time away from the defaults."""
        best = self._try((action,))
        if best is None or not self.bench.moved(best.result):
            return best
        for other in variants(action):
            trial = self._try((other,))
            if trial is None:
                self.refused.pop(action.name, None)
            elif trial.rank > (best.fits, best.rank[1] + LEAST_GAIN):
                best = trial
        return best

    def _gains(self, trial: Trial) -> bool:
        """Whether it is worth a line: it gains and runs; of what does not fit, it runs or comes closer to it."""
        if not self.fitted:
            return trial.fits or trial.saved >= LEAST_SAVED
        return trial.gain >= LEAST_GAIN and trial.fits

    def _sorted(self, trials: Sequence[Trial]) -> list[Trial]:
        return sorted((t for t in trials if self._gains(t)), key=lambda t: t.rank, reverse=True)

    def _pairs(self, singles: Sequence[Trial]) -> list[Trial]:
        """Two together, where that gains more than the better one alone."""
        alone = {t.actions[0].words: t for t in singles}
        wanted: dict[tuple[str, str], tuple[Action, Action]] = {}
        good = [t for t in self._sorted(singles) if t.fits or not self.fitted][:PAIRED]
        for one, other in combinations(good, 2):
            self._want(wanted, one, other)
        spare = sorted((t for t in singles if t.saved >= LEAST_SAVED), key=lambda t: -t.saved)[:SAVERS]
        greedy = sorted((t for t in singles if not t.fits and t.gain >= LEAST_GAIN), key=lambda t: -t.gain)[:SAVERS]
        for one in spare:
            for other in greedy:
                self._want(wanted, one, other)
        self.ahead = self.tried + len(wanted)
        kept = []
        for first, second in wanted.values():
            trial = self._try((first, second))
            if trial is None or not self._gains(trial):
                continue
            halves = [alone[a.words] for a in (first, second)]
            better = max((h.rank for h in halves), default=(False, 0.0))
            if trial.rank > (better[0], better[1] + LEAST_GAIN):
                kept.append(trial)
        distinct: dict[tuple[float, bool, float], Trial] = {}
        for trial in sorted(kept, key=lambda t: t.rank, reverse=True):  # techniques that come to one plan count once
            distinct.setdefault((trial.gain, trial.fits, trial.saved), trial)
        return list(distinct.values())

    @staticmethod
    def _want(wanted: dict[tuple[str, str], tuple[Action, Action]], one: Trial, other: Trial) -> None:
        a, b = one.actions[0], other.actions[0]
        alike = a.name == b.name or (a.technique is None and b.technique is None)
        if not alike and not _conflict(a, b):
            first, second = (a, b) if a.technique is not None else (b, a)
            wanted.setdefault((min(a.words, b.words), max(a.words, b.words)), (first, second))

    def _saved(self, result: Any) -> float:
        before, after = self.bench.reserved_bytes(self.bench.base), self.bench.reserved_bytes(result)
        return 1.0 - after / before if before and after is not None else 0.0

    def _effect(self, trial: Trial) -> str:
        """Why a technique is not advised, in a few words."""
        if not trial.fits and self.fitted:
            return f"{trial.gain:+.1%} but does not fit in memory"
        if trial.gain < -LEAST_GAIN:
            worse = next((n for n, a, b in self.bench.moved(trial.result) if b > a), "")
            return f"{trial.gain:+.1%}" + (f": more {worse}" if worse else "")
        if trial.saved >= LEAST_SAVED:
            return f"nothing but {trial.saved:.0%} less memory"
        return "changes nothing that counts here"

    def _said(self, trial: Trial, kind: str, among: Sequence[Trial] = ()) -> Suggestion:
        band = self.bench.band(trial.result, self.objective)
        ends = sorted((band.low, band.high) if self.objective.larger else (1.0 / band.high, 1.0 / band.low))
        before, after = self.bench.reserved_bytes(self.bench.base), self.bench.reserved_bytes(trial.result)
        known = [a.technique for a in trial.actions if a.technique is not None]
        clashes = []
        if kind == "technique":
            others = (t.actions[0] for t in among if t is not trial)
            clashes = [other.name for other in others if _conflict(trial.actions[0], other)]
        changes: dict[str, Any] = {}
        entries = [a.entry for a in trial.actions if a.technique is not None]
        for action in trial.actions:
            changes |= action.changes
        if entries:
            changes["techniques"] = [*self.bench.scenario.get("techniques", ()), *entries]
        single = known[0] if len(known) == 1 == len(trial.actions) else None
        return Suggestion(
            tuple(a.name for a in trial.actions), " + ".join(a.words for a in trial.actions), kind, trial.gain,
            ends[0] - 1.0, ends[1] - 1.0, band.level, ends[0] > 1.0 or ends[1] < 1.0, band.basis,
            self.objective.value(trial.result) or 0.0, trial.fits,
            None if before is None or after is None else after - before, self.bench.moved(trial.result), changes,
            single.summary if single else "", single.paper.line() if single else "",
            "; ".join(q for t in known if (q := str(getattr(t, "quality", "")))),
            dict(getattr(single, "where", {})) if single else {}, tuple(clashes),
            "; ".join(f"{t.id}: {t.missing}" for t in known if t.missing),
        )  # fmt: skip


def _conflict(a: Action, b: Action) -> bool:
    if a.technique is None or b.technique is None:
        return False
    try:
        applied((a.entry, b.entry))
    except BadInput:
        return True
    return False
