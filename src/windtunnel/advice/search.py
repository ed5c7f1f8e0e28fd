"""The search for advice: every technique alone, its knobs, a few settings, then promising pairs; all simulated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from windtunnel.advice.actions import (
    INTERVAL_AUTO,
    Action,
    layouts,
    run_settings,
    settings,
    smaller,
    techniques,
    variants,
)
from windtunnel.advice.advice import Advice
from windtunnel.advice.bench import Bench, ServingBench, TrainingBench, attempt
from windtunnel.advice.learning import priced_in_loss
from windtunnel.advice.objectives import RUN, Objective, chosen
from windtunnel.advice.software import refused_by_release
from windtunnel.advice.suggestion import Suggestion
from windtunnel.advice.trial import LEAST_GAIN, LEAST_SAVED, Trial, conflict, distinct, said, trial_of
from windtunnel.catalog.load import load
from windtunnel.errors import BadInput
from windtunnel.scenarios.source import Source
from windtunnel.serving.iteration import pricing_cache
from windtunnel.specs.scenario import Scenario
from windtunnel.techniques import applied, idle

PAIRED, SAVERS = 10, 8
"""Best changes that are tried two by two; memory savers that are tried next to changes that do not fit alone."""
WITHIN = 0.6
"""Speed over that of the best one that makes a scenario fit, down to which others are listed."""
TOGETHER = 2
"""Pairs of one and the same change that are listed at most."""
ENOUGH = 0.98
"""Share of requests within the objective from which on goodput is the load's, not the deployment's."""
HOPELESS = -0.3
"""Gain below which no other knobs are tried."""
NOTHING = "changes nothing that counts here"
REQUESTS, ROUNDS = 1000, 8
"""Requests that serving is compared on at most, or so many times those under way at once."""
Progress = Callable[[int, int], None]


def advise(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    objective: str | None = None,
    pairs: bool = True,
    report: Progress | None = None,
) -> Advice:
    """Apply every technique that suits a scenario, and rank them by what they gain.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`; with `training` or `serving`.
        overrides: `key=value` settings as `--set` takes them.
        objective: time, memory, energy, money (training); throughput, goodput, ttft, tpot, e2e, energy, money
            (serving); days, run_cost, run_energy, carbon_kg (a scenario with `run`, its step's four too). Absent: time;
            days of a run; goodput where the scenario states an objective for latency, else throughput of
            closed loops and e2e of open ones.
        pairs: also try promising ones two by two.
        report: called with changes tried and to try.

    Raises:
        BadInput: everything wrong with the scenario.
        Infeasible: serving, where the model does not fit.
    """
    with pricing_cache.reuse_prices():
        search = Search(*_opened(source, tuple(overrides), objective), report)
        return search.run(pairs=pairs)


def _opened(
    source: Source, overrides: tuple[str, ...], objective: str | None
) -> tuple[Bench, Scenario, Objective, tuple[str, ...]]:
    scenario, _, _ = load(source, overrides)
    if scenario.training is None and scenario.serving is not None:
        from windtunnel.serving.simulate import simulate_serving

        goal = chosen(objective, "serving", default=_serving_default(scenario))
        fewer, notes = _fewer_requests(scenario)
        served = simulate_serving(source, overrides=(*overrides, *fewer))
        return ServingBench(served, served.scenario), scenario, _with_figure(goal, served), notes
    goal = chosen(objective, "training" if scenario.run is None else "run", default="days" if scenario.run else "time")
    if goal in RUN:
        return _run_opened(source, overrides, scenario, goal)
    from windtunnel.training.predict import simulate_training

    trained = simulate_training(source, overrides=overrides)
    return TrainingBench(trained, trained.scenario), scenario, _with_figure(goal, trained), ()


def _run_opened(
    source: Source, overrides: tuple[str, ...], scenario: Scenario, goal: Objective
) -> tuple[Bench, Scenario, Objective, tuple[str, ...]]:
    from windtunnel.advice.run_bench import RunBench
    from windtunnel.runs.simulate import prepared_run

    bench = RunBench.of(prepared_run(source, overrides=overrides))
    return bench, scenario, _with_figure(goal, bench.base), ()


def _fewer_requests(scenario: Scenario) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Overrides that shorten long traffic, and what to say of it; many techniques run on the plain loop."""
    assert scenario.serving is not None
    traffic = scenario.serving.traffic
    count, most = traffic.num_requests, max(REQUESTS, ROUNDS * int(traffic.concurrency or 0))
    if count is None or count <= most:
        return (), ()
    warm = min(traffic.warmup_requests, most // 10)
    changes = (f"serving.traffic.num_requests={most}", f"serving.traffic.warmup_requests={warm}")
    return changes, (f"compared on the first {most:,} of {count:,} requests: queues that grow all day look shorter",)


def _serving_default(scenario: Scenario) -> str:
    serving = scenario.serving
    assert serving is not None
    if serving.slo is not None and (serving.slo.ttft_s or serving.slo.tpot_s or serving.slo.e2e_s):
        return "goodput"
    return "throughput" if serving.traffic.concurrency else "e2e"


def _with_figure(goal: Objective, result: Any) -> Objective:
    if goal.value(result) is None:
        why = "run.grid is not stated" if goal.id == "carbon_kg" else "its device states no price or watts"
        raise BadInput(f"objective = {goal.id}: this scenario has no {goal.title}: {why}")
    return goal


class Search:
    """One scenario, one objective."""

    def __init__(
        self, bench: Bench, scenario: Scenario, objective: Objective, notes: tuple[str, ...], report: Progress | None
    ) -> None:
        self.bench, self.scenario, self.objective, self.notes = bench, scenario, objective, notes
        self.report = report
        self.before = objective.value(bench.base) or 0.0
        self.fitted = bench.fits(bench.base)
        self.serves = bench.work == "serving"
        self.framework = _software(scenario, serves=self.serves)
        self.tried, self.ahead = 0, 0
        self.refused: dict[str, str] = {}
        self.paired: list[Trial] = []
        self.within = -math.inf
        """Gain below which what makes a scenario fit is not worth a line: others make it fit at a fraction of that."""

    def run(self, *, pairs: bool) -> Advice:
        """Alone, with other knobs, settings, two by two."""
        found, unfit = techniques(self.scenario, self.bench.work)
        others = self._settings()
        self.ahead = len(found) + len(others)
        singles = [best for action in found if (best := self._best(action)) is not None]
        singles += [t for action in others if (t := self._try((action,))) is not None]
        known = {t.actions[0].name for t in singles}
        refused = {k: v for k, v in self.refused.items() if k not in known}
        if not self.fitted and (running := [t.gain for t in singles if t.fits and t.like_for_like]):
            self.within = (1.0 + max(running)) * WITHIN - 1.0
        alone = distinct([t for t in singles if self._gains(t)], self.framework)
        both = self._pairs(singles, [t for t, _ in alone]) if pairs else []
        gaining = {t.actions[0].name for t in singles if self._gains(t)}
        lost = {
            t.actions[0].name: self._effect(t)
            for t in sorted(singles, key=lambda t: t.rank, reverse=True)
            if t.actions[0].technique is not None and t.actions[0].name not in gaining
        }
        base = self.bench.base
        among = [t for t, _ in alone]
        lists = {
            kind: tuple(
                said(self.bench, self.objective, t, "setting" if t.is_plan else "technique", alike=alike, among=among)
                for t, alike in alone
                if kind == ("unlike" if not t.like_for_like else "setting" if t.is_plan else "technique")
            )
            for kind in ("technique", "setting", "unlike")
        }
        return Advice(
            scenario_name=base.scenario_name,
            objective=self.objective,
            value=self.before,
            fits=self.fitted,
            bottleneck=base.bound_by,
            **self._of_the_base(),
            framework=self.framework,
            suggestions=lists["technique"],
            settings=lists["setting"],
            pairs=tuple(said(self.bench, self.objective, t, "pair") for t in both),
            unlike=self._priced(lists["unlike"]),
            lost=lost,
            refused=refused,
            unfit=unfit,
            tried=self.tried,
            notes=(*self.notes, *self._idle(), *self._remarks(lists)),
            result=base,
        )

    def _priced(self, unlike: tuple[Suggestion, ...]) -> tuple[Suggestion, ...]:
        """Suggestions that change what is learned, with their price in loss where nodes are joined by slow links."""
        if self.serves or not any("techniques" in one.scenario for one in unlike):
            return unlike
        from windtunnel import catalog

        return priced_in_loss(unlike, catalog.resolve_cluster(self.scenario.cluster))

    def _settings(self) -> list[Action]:
        """What is tried next to techniques."""
        if self.serves:
            return layouts(self.scenario)
        of_the_step = settings(self.scenario, self.bench.base.plan)
        if self.bench.work == "training":
            return of_the_step
        return [*run_settings(self.scenario, self.bench.base.x.program.nodes.job), *of_the_step]

    def _of_the_base(self) -> dict[str, dict[str, float]]:
        """Where time and memory go today, and what more of a resource would bring."""
        if self.serves:
            return {"shares": {}, "sensitivities": {}, "memory": {}}
        base = self.bench.base
        step = base if self.bench.work == "training" else base.x.step
        whole = sum(base.breakdown.values()) if self.bench.work == "run" else base.step_time_s
        return {
            "shares": {k: float(v) / whole for k, v in sorted(base.breakdown.items(), key=lambda x: -x[1])},
            "sensitivities": dict(step.sensitivities) if self.bench.work == "training" else {},
            "memory": dict(sorted(step.memory.at_peak.items(), key=lambda x: -x[1])),
        }

    def _idle(self) -> list[str]:
        """Techniques of the scenario that today's figure owes nothing to."""
        found = idle(applied(self.scenario.techniques), self.scenario, self.bench.work)
        return [f"technique {name} of the scenario does nothing here: {reason}" for name, reason in found.items()]

    def _remarks(self, lists: Mapping[str, Sequence[Suggestion]]) -> list[str]:
        """What settings alone gain next to techniques, and when there is nothing left to gain."""
        base = self.bench.base
        if self.objective.id == "goodput" and base.slo_attainment > ENOUGH:
            return [
                f"{_share(base.slo_attainment)} of requests meet the objective for latency already: ask at a higher "
                "load (--set serving.traffic.rate_per_s=…) or for another objective (--objective ttft, energy)"
            ]
        plans, own = (max((s.gain for s in lists[k]), default=0.0) for k in ("setting", "technique"))
        if self.fitted and plans > own and lists["setting"]:
            return [
                f"settings alone gain {_signed(plans)}, the best technique alone {_signed(own)}: search them first "
                f"({'`plan --objective days`, `run --search`' if self.bench.work == 'run' else '`windtunnel plan`'}), "
                "then ask again"
            ]
        return []

    def _try(self, actions: tuple[Action, ...]) -> Trial | None:
        self.tried += 1
        result, reason = attempt(self.bench, actions)
        if result is not None and (why := self._not_in_release(actions, result)) is not None:
            result, reason = None, why
        if self.report is not None:
            self.report(self.tried, max(self.ahead, self.tried))
        if result is None:
            if len(actions) == 1:
                self.refused.setdefault(actions[0].name, reason)
            return None
        return trial_of(self.bench, self.objective, actions, result)

    def _not_in_release(self, actions: tuple[Action, ...], result: Any) -> str | None:
        """Why the framework's release cannot run a changed plan; None where it can, and for what is no training."""
        training = self.scenario.training
        if training is None or self.bench.work != "training":
            return None
        techniques = [action.technique for action in actions if action.technique is not None]
        return refused_by_release(training, self.bench.base.plan, result.plan, techniques)

    def _best(self, action: Action) -> Trial | None:
        """A technique at its best knobs, one knob at a time away from the defaults."""
        best = self._try((action,))
        if best is None:  # sizes that divide nothing here
            return next((t for other in smaller(action) if (t := self._try((other,))) is not None), None)
        hopeless = best.fits and best.gain < HOPELESS and best.saved < LEAST_SAVED
        if hopeless or not self.bench.moved(best.result, self.objective):
            return best
        for other in variants(action):
            trial = self._try((other,))
            if trial is not None and trial.rank > (best.fits, best.rank[1] + LEAST_GAIN):
                best = trial
        return best

    def _gains(self, trial: Trial) -> bool:
        """Whether it is worth a line: it gains and runs; of what does not fit, it runs, or comes closer."""
        if not self.fitted and self.within > -math.inf:
            return trial.fits and trial.gain >= self.within
        if not self.fitted:
            return trial.fits or trial.saved >= LEAST_SAVED
        return trial.gain >= LEAST_GAIN and trial.fits

    def _pairs(self, singles: Sequence[Trial], gaining: Sequence[Trial]) -> list[Trial]:
        """Two together, where that gains more than the better one alone; results stay what they were."""
        alike = [t for t in singles if t.like_for_like]
        alone = {t.words: t for t in alike}
        wanted: dict[tuple[str, str], tuple[Action, Action]] = {}
        good = [t for t in gaining if t.like_for_like]
        if not self.fitted:  # what gains besides, and what frees memory without being enough
            more = [t for t in alike if not t.fits and (t.saved >= LEAST_SAVED or t.gain >= LEAST_GAIN)]
            known = {t.words for t in good}
            more = [t for t, _ in distinct(more, self.framework) if t.words not in known]
            good = [*good[: PAIRED // 2], *sorted(more, key=lambda t: t.gain, reverse=True)]
        for one, other in combinations(good[:PAIRED], 2):
            _want(wanted, one, other)
        spare = [t for t, _ in distinct([t for t in alike if t.saved >= LEAST_SAVED], self.framework)]
        spare = sorted(spare, key=lambda t: (-(t.gain > -0.02), -t.saved))[:SAVERS]
        tight = [t for t, _ in distinct([t for t in alike if not t.fits and t.gain >= LEAST_GAIN], self.framework)]
        for one in spare:
            for other in sorted(tight, key=lambda t: -t.gain)[:SAVERS]:
                _want(wanted, one, other)
        at_best = next((t for t in singles if t.actions[0].name == INTERVAL_AUTO), None)
        for one in alike:
            own = one.actions[0].technique
            if at_best is not None and own is not None and own.saves == "checkpoints":
                _want(wanted, one, at_best)  # saves that cost less pay by being more
        self.ahead = self.tried + len(wanted)
        kept = []
        for actions in wanted.values():
            trial = self._try(actions)
            if trial is None:
                continue
            self.paired.append(trial)
            better = max(alone[a.words].rank for a in actions)
            if self._gains(trial) and trial.rank > (better[0], better[1] + LEAST_GAIN):
                kept.append(trial)
        seen: Counter[str] = Counter()
        listed = []
        for trial, _ in distinct(kept, self.framework):
            names = [a.words for a in trial.actions]
            if all(seen[name] < TOGETHER for name in names):
                seen.update(names)
                listed.append(trial)
        return listed

    def _effect(self, trial: Trial) -> str:
        """Why a technique is not advised, in a few words."""
        if not self.fitted:
            freed = f"{_share(trial.saved)} less memory" if trial.saved >= LEAST_SAVED else ""
            if trial.fits:
                return f"fits, but {_signed(trial.gain)}"
            return f"does not fit alone, {freed}, {_signed(trial.gain)}" if freed else NOTHING
        if not trial.fits:
            return f"{_signed(trial.gain)} but does not fit in memory{self._relief(trial)}"
        if trial.gain < -LEAST_GAIN:
            worse = next((n for n, a, b in self.bench.moved(trial.result, self.objective) if b > a), "")
            freed = f", {_share(trial.saved)} less memory" if trial.saved >= LEAST_SAVED else ""
            return f"{_signed(trial.gain)}" + (f": more {worse}" if worse else "") + freed
        if trial.saved >= LEAST_SAVED:
            return f"nothing but {_share(trial.saved)} less memory"
        return NOTHING

    def _relief(self, trial: Trial) -> str:
        """What it fits together with, and what is left of its gain then."""
        name = trial.actions[0].words
        with_it = [t for t in self.paired if t.fits and any(a.words == name for a in t.actions)]
        best = max(with_it, key=lambda t: t.gain, default=trial)
        if best is trial or best.gain < LEAST_GAIN:
            return ""
        other = next((a.words for a in best.actions if a.words != name), "")
        return f"; with {other} it does, {_signed(best.gain)}"


def _software(scenario: Scenario, *, serves: bool) -> str:
    """Framework of a scenario that is trained, engine of one that is served."""
    if serves:
        return str(scenario.serving.engine) if scenario.serving is not None else ""
    return str(scenario.training.framework) if scenario.training is not None else ""


def _signed(change: float) -> str:
    if abs(change) < 5e-4:
        return "0.0 %"
    return f"{100 * change:+.1f} %".replace("-", "−")


def _share(part: float) -> str:
    return f"{100 * part:.0f} %"


def _want(wanted: dict[tuple[str, str], tuple[Action, Action]], one: Trial, other: Trial) -> None:
    a, b = one.actions[0], other.actions[0]
    alike = a.name == b.name or (a.technique is None and b.technique is None)
    if not alike and not conflict(a, b):
        first, second = (a, b) if a.technique is not None else (b, a)
        wanted.setdefault((min(a.words, b.words), max(a.words, b.words)), (first, second))
