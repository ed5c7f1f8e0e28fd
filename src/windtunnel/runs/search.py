"""The best save interval, spares and checkpoint tiers of a run, over a grid of choices.

Choices are ordered by their expected run in closed form, which leaves out those that are far behind. The others race:
all get the same random numbers, a few replications first; a choice drops out once another is surely (99 %, paired
differences) better in the objective, the days and the money at once; those that stay get twice as many, until one is
left or `run.replications` are done. What stays is the Pareto set, and its best at the objective is the answer.

Sources: paired comparisons with common random numbers (Law 2015, Simulation Modeling and Analysis, sections 10.2 and
11.2); races (Maron and Moore 1994, NeurIPS 6).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from windtunnel.arrays import Floats
from windtunnel.charts.chart import Panels
from windtunnel.errors import BadInput, Infeasible, Problem
from windtunnel.progress import counting
from windtunnel.runs.event_loop.program import CLASSES, WORK, Replication
from windtunnel.runs.event_loop.replicate import Runs, replications, soonest
from windtunnel.runs.expected import expected_run
from windtunnel.runs.prepare_run import PreparedRun, drawn_fleets, with_run, with_spares
from windtunnel.runs.run_bill import bill_of
from windtunnel.runs.run_choice import RunChoice
from windtunnel.runs.simulate import prepared_run
from windtunnel.runs.spot.expected import spot_mean
from windtunnel.scenarios.source import Source
from windtunnel.specs.run import DAY_S, CheckpointTier, RunSearch
from windtunnel.versions import RESULT_SCHEMA

FIRST = 8
"""Replications of the first round."""
CLOSED_FORM = 0.12
"""How far behind a choice may be in closed form before it is left out: more than the closed form is ever off by."""
_LEAST = 2
"""Replications below which nothing is stated of a choice."""
_SURE, _TAIL = 0.995, 1.2816
_FACTORS = (0.25, 0.5, 0.7071, 1.0, 1.4142, 2.0, 4.0)
METRICS = ("days", "run_cost", "carbon_kg")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSearchResult:
    """The best choices of a run, what they cost next to others, and how sure that is."""

    scenario_name: str
    objective: str
    best: RunChoice
    runner_up: RunChoice | None
    written: RunChoice | None
    """The scenario's own run."""
    front: tuple[RunChoice, ...]
    """Choices that none surely beats in objective, days and money at once, fewest days first."""
    curves: dict[str, tuple[RunChoice, ...]]
    """intervals, spares and tiers → choices that differ from the best in it alone."""
    choices: int
    left_out: dict[str, int]
    """Rule → choices that it took out."""
    simulated: int
    """Choices that were run."""
    complete: bool
    """False: Ctrl-C ended the race with what there was."""
    scenario: dict[str, Any] = field(default_factory=dict)
    """The scenario with the best choice written in."""
    simulated_in_s: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {"schema_version": RESULT_SCHEMA} | asdict(self)

    def figure(self) -> Panels:
        """Charts: days against money, and days by interval, spares and tiers."""
        from windtunnel.runs.search_figures import search_figure

        return search_figure(self)


class _Runner:
    """One choice: its run, and its replications so far."""

    def __init__(self, x: PreparedRun, tiers: int, run: Runs) -> None:
        self.x, self.tiers = x, tiers
        fleets = drawn_fleets(x)
        self.spot = spot_mean(x.program, fleets) if fleets else None
        self.expected = expected_run(x.program, self.spot)
        self._more: Iterator[Replication] = replications(x.program, x.frailty, 10**9, x.run.seed, run)
        self.seconds = np.zeros((0, len(CLASSES)))
        self.values = np.zeros((0, len(METRICS)))
        """Of every replication; not a number where nothing says so. Shape (n, 3)."""

    @property
    def count(self) -> int:
        return len(self.values)

    def grow(self, count: int) -> None:
        """Have so many replications at least."""
        rows, values = [], []
        for found in islice(self._more, max(count - self.count, 0)):
            rows.append(found.seconds)
            values.append(self._figures(found.seconds, [found]))
        if rows:
            self.seconds = np.concatenate([self.seconds, rows])
            self.values = np.concatenate([self.values, values])

    def _figures(self, seconds: Floats, runs: Sequence[Replication]) -> list[float]:
        wall_s = float(seconds.sum())
        bill = bill_of(self.x, seconds, wall_s / DAY_S, runs)
        return [wall_s / DAY_S, *(np.nan if v is None else v for v in (bill.cost, bill.carbon_kg))]

    def key(self) -> tuple[int, int, int]:
        """What tells it from other choices: tiers, steps between saves, spares."""
        job = self.x.program.job
        return self.tiers, round(job.interval_s / self.x.step.step_time_s), self.x.program.nodes.spares


def search_run(source: Source, *, overrides: Sequence[str] = (), run: Runs = soonest) -> RunSearchResult:
    """The best interval, spares and tiers of a run.

    Ctrl-C ends it with the best so far; choices that are best in closed form are run first.

    Args:
        source: Path of a scenario file with a `run` section, a mapping of its fields, or a `Scenario`.
        overrides: Settings `key=value` as `--set` takes them.
        run: The loop that runs a replication.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no choice leaves time to save; the nearest that does is named.
    """
    begun = time.perf_counter()
    base = prepared_run(source, overrides=overrides)
    wanted = base.run.search or RunSearch()
    _check(base, wanted)
    race = _Race(base, wanted, run)
    race.enter()
    try:
        race.go()
        complete = True
    except KeyboardInterrupt:
        race.alive = [one for one in race.alive if one.count >= _LEAST]
        if not race.alive:
            raise
        complete = False
    return replace(race.result(complete=complete), simulated_in_s=time.perf_counter() - begun)


def usual_tiers(own: tuple[CheckpointTier, ...]) -> tuple[tuple[CheckpointTier, ...], ...]:
    """The run's own tiers, and what is usual: storage alone in each mode, with host memory or a peer's above it."""

    def tier(to: str, mode: str = "async", **more: Any) -> CheckpointTier:
        return CheckpointTier.model_validate({"to": to, "mode": mode, **more})

    storage = next((t for t in own if t.to == "storage"), CheckpointTier(to="storage"))
    stated = storage.model_dump(exclude_unset=True, exclude={"mode", "every", "block_s", "save_s"})
    alone = [(CheckpointTier.model_validate({**stated, "mode": mode}),) for mode in ("sync", "async", "lazy")]
    far = CheckpointTier.model_validate({**stated, "mode": "async", "every": 8})
    layered = [(tier("host"), far), (tier("peer"), far), (tier("host"), tier("peer", every=2), far)]
    return tuple(dict.fromkeys((own, *alone, *layered)))


def tiers_words(tiers: Sequence[CheckpointTier]) -> str:
    """Tiers in a few words.

    Example:
        >>> tiers_words((CheckpointTier(to="host", mode="async"), CheckpointTier(to="storage", every=4)))
        'host async + storage sync ×4'
    """
    return " + ".join(f"{t.to} {t.mode}" + (f" ×{t.every}" if t.every > 1 else "") for t in tiers)


def _check(x: PreparedRun, wanted: RunSearch) -> None:
    """Refuse what the run cannot be asked.

    Raises:
        BadInput: more spares than nodes, no price for money, no grid for carbon.
    """
    problems = []
    nodes, rest = x.program.nodes.job, x.program.nodes.idle + x.program.nodes.shared
    for spares in wanted.spares or ():
        if spares + rest > nodes:
            rule = f"spares, pool_nodes and shared_nodes must together be at most the job's {nodes} nodes"
            problems.append(Problem("run.search.spares", rule, spares + rest))
    bill = bill_of(x.with_program(replace(x.program, draw_market=None)), np.ones(len(CLASSES)), 1.0)
    if wanted.objective == "run_cost" and bill.cost is None:
        rule = "needs a price: cluster.price_per_device_hour or run.price_per_kwh"
        problems.append(Problem("run.search.objective", rule, "run_cost"))
    if wanted.objective == "carbon_kg" and bill.carbon_kg is None:
        problems.append(Problem("run.search.objective", "needs run.grid", "carbon_kg"))
    if problems:
        raise BadInput(problems)


class _Race:
    """All choices of a run, those that still race, and those that dropped out."""

    def __init__(self, base: PreparedRun, wanted: RunSearch, run: Runs) -> None:
        self.base, self.wanted, self.run = base, wanted, run
        self.sets = wanted.tiers or usual_tiers(base.run.checkpoint.tiers)
        self.own_set = next((i for i, t in enumerate(self.sets) if t == base.run.checkpoint.tiers), -1)
        self.every: dict[tuple[int, int, int], _Runner] = {}
        self.alive: list[_Runner] = []
        self.left_out: dict[str, int] = {}
        self.nearest = ""
        self.goal = METRICS.index(wanted.objective)

    @property
    def least(self) -> int:
        """Replications that every choice of the race has."""
        return min((one.count for one in self.alive), default=0)

    # -- choices

    def enter(self) -> None:
        """Lay out every choice, and leave out those far behind in closed form."""
        for at, tiers in enumerate(self.sets):
            for laid in self._laid_out(tiers):
                for spares in self._spares():
                    own = _Runner(with_spares(laid, spares), at, self.run)
                    self.every.setdefault(own.key(), own)
        if not self.every:
            raise Infeasible("no choice of run.search leaves time to save", self.nearest or None)
        figures = np.array([self._expected(one) for one in self.every.values()])
        used = np.flatnonzero(np.isfinite(figures).all(axis=0))
        figures = figures[:, used]
        for one, own in zip(self.every.values(), figures, strict=True):
            others = (figures * (1.0 + CLOSED_FORM) < own).all(axis=1)
            if others.any() and one is not self.written():
                self._leave("behind in closed form")
            else:
                self.alive.append(one)
        by = {
            id(one): own[int(np.searchsorted(used, self.goal))]
            for one, own in zip(self.every.values(), figures, strict=True)
        }
        self.alive.sort(key=lambda one: float(by[id(one)]))

    def _spares(self) -> tuple[int, ...]:
        nodes = self.base.program.nodes
        most = max(nodes.job // 8, 1)
        usual = {0, nodes.spares, *(2**i for i in range(most.bit_length()) if 2**i <= most)}
        return self.wanted.spares or tuple(sorted(n for n in usual if n + nodes.idle + nodes.shared <= nodes.job))

    def _laid_out(self, tiers: tuple[CheckpointTier, ...]) -> list[PreparedRun]:
        """The run with these tiers, at every interval that leaves time to save."""
        if (needs := host_bytes(self.base, tiers)) > self.base.prepared.members[0].cluster.host_memory_bytes:
            self._leave(f"copies of {needs / 1e12:.2g} TB do not fit in a node's host memory", len(self._spares()))
            return []
        out = []
        for interval in self._intervals(tiers):
            checkpoint = self.base.run.checkpoint
            changed = {"tiers": tiers, "interval": interval, "interval_steps": None}
            run = self.base.run.model_copy(update={"checkpoint": checkpoint.model_copy(update=changed)})
            try:
                out.append(with_run(self.base, run))
            except BadInput as error:
                self.nearest = self.nearest or self._nearest(tiers, error)
                self._leave("saves take longer than the interval", len(self._spares()))
        return out

    def _nearest(self, tiers: tuple[CheckpointTier, ...], error: BadInput) -> str:
        """What is in the way of an interval, and the best one that leaves time."""
        best = self._auto(tiers).program.job.interval_s
        return f"{tiers_words(tiers)} every {best:,.0f} s ({error.problems[0].rule})"

    def _auto(self, tiers: tuple[CheckpointTier, ...]) -> PreparedRun:
        """The run with these tiers at the interval that is best in closed form."""
        changed = {"tiers": tiers, "interval": "auto", "interval_steps": None}
        checkpoint = self.base.run.checkpoint.model_copy(update=changed)
        return with_run(self.base, self.base.run.model_copy(update={"checkpoint": checkpoint}))

    def _intervals(self, tiers: tuple[CheckpointTier, ...]) -> list[float | str]:
        if self.wanted.intervals is not None:
            return list(self.wanted.intervals)
        best = self._auto(tiers).program.job.interval_s
        step_s = self.base.step.step_time_s
        steps = {max(round(best * factor / step_s), 1) for factor in _FACTORS}
        own = {self.base.program.job.interval_s} if tiers == self.base.run.checkpoint.tiers else set()
        return sorted({*(n * step_s for n in steps), *own})

    def _expected(self, one: _Runner) -> list[float]:
        """Days, money and carbon in closed form."""
        running, wall = one.expected.running_s, one.expected.wall_s
        seconds = np.zeros(len(CLASSES))
        seconds[WORK], seconds[-1] = running, wall - running
        bill = bill_of(one.x, seconds, wall / DAY_S, mean=one.spot)
        values = (wall / DAY_S, bill.cost, bill.carbon_kg)
        kept = {0, 1, self.goal}
        return [np.nan if v is None or i not in kept else v for i, v in enumerate(values)]

    def _leave(self, rule: str, count: int = 1) -> None:
        self.left_out[rule] = self.left_out.get(rule, 0) + count

    def written(self) -> _Runner | None:
        """The run as it is written, where the grid has it."""
        steps = round(self.base.program.job.interval_s / self.base.step.step_time_s)
        return self.every.get((self.own_set, steps, self.base.program.nodes.spares))

    # -- the race

    def go(self) -> None:
        """Rounds of replications until one choice is left, or all have enough; then what the curves need."""
        most = max(self.base.run.replications, FIRST)
        count = FIRST
        while True:
            self._round(self.alive, count)
            self._drop()
            if len(self.alive) == 1 or count >= most:
                break
            count = min(2 * count, most)
        best = self.best()
        enough = min(max(4 * FIRST, best.count), most)
        mine = [one for name in ("intervals", "spares", "tiers") for one in self._curve(name, best)]
        self._round([*mine, best, *([w] if (w := self.written()) else [])], enough)

    def _round(self, runners: Sequence[_Runner], count: int) -> None:
        have = float(sum(one.count for one in runners))
        total = float(sum(max(count, one.count) for one in runners))
        with counting("replications", lambda: (float(sum(r.count for r in runners)) - have, total - have)):
            for one in runners:
                one.grow(count)

    def _drop(self) -> None:
        """Drop what another choice surely beats in all that counts."""
        from scipy.stats import t

        n = self.least
        values = np.array([one.values[:n] for one in self.alive])
        means = values.mean(axis=1)
        used = [i for i in sorted({0, 1, self.goal}) if np.isfinite(means[:, i]).all()]
        quantile = float(t.ppf(_SURE, n - 1))
        kept = []
        for i, one in enumerate(self.alive):
            beaten = False
            for j in np.flatnonzero((means[:, used] <= means[i, used]).all(axis=1)).tolist():
                by = values[i][:, used] - values[j][:, used]
                low = by.mean(axis=0) - quantile * by.std(axis=0, ddof=1) / np.sqrt(n)
                if (low >= 0).all() and (low > 0).any():
                    beaten = True
                    break
            if beaten:
                self._leave("beaten in the race")
            else:
                kept.append(one)
        self.alive = kept

    def best(self) -> _Runner:
        """The choice with the least of the objective."""
        return min(self.alive, key=lambda one: float(one.values[:, self.goal].mean()))

    def _curve(self, name: str, best: _Runner) -> list[_Runner]:
        """Choices that differ from the best in one thing alone; of tiers, each set at its best interval so far."""
        tiers, steps, spares = best.key()
        if name == "tiers":
            out = []
            for at in range(len(self.sets)):
                own = [one for key, one in self.every.items() if key[0] == at and key[2] == spares]
                if at != tiers and own:
                    out.append(min(own, key=lambda one: one.expected.wall_s))
            return [best, *out]
        place = 1 if name == "intervals" else 2
        fixed = [i for i in range(3) if i != place]
        mine = [one for key, one in self.every.items() if all(key[i] == (tiers, steps, spares)[i] for i in fixed)]
        return sorted(mine, key=lambda one: one.key()[place])

    # -- the answer

    def result(self, *, complete: bool) -> RunSearchResult:
        """What the race says so far."""
        best = self.best()
        run = [one for one in self.every.values() if one.count >= _LEAST]
        others = [one for one in run if one is not best]
        runner_up = min(others, key=lambda one: float(one.values[:, self.goal].mean()), default=None)
        written = self.written()
        front = sorted(self.alive, key=lambda one: float(one.values[:, 0].mean()))
        curves = {n: tuple(self._told(c, best) for c in self._curve(n, best) if c.count >= _LEAST) for n in _CURVES}
        return RunSearchResult(
            scenario_name=self.base.scenario.name or self.base.step.scenario_name,
            objective=self.wanted.objective,
            best=self._told(best, best),
            runner_up=None if runner_up is None else self._told(runner_up, best),
            written=None if written is None or written.count < _LEAST else self._told(written, best),
            front=tuple(self._told(one, best) for one in front),
            curves=curves,
            choices=len(self.every) + sum(n for rule, n in self.left_out.items() if rule not in _LAID_OUT),
            left_out=dict(self.left_out),
            simulated=len(run),
            complete=complete,
            scenario=self._scenario(best),
        )

    def _told(self, one: _Runner, best: _Runner) -> RunChoice:
        mean, count = one.values.mean(axis=0), one.count
        error = one.values[:, 0].std(ddof=1) / np.sqrt(count)
        behind, ends = None, None
        if one is not best:
            n = min(count, best.count)
            by = one.values[:n, self.goal] - best.values[:n, self.goal]
            behind, spread = float(by.mean()), _TAIL * float(by.std(ddof=1)) / float(np.sqrt(n))
            ends = (behind - spread, behind + spread)
        return RunChoice(
            tiers=tiers_words(self.sets[one.tiers]),
            interval_s=one.x.program.job.interval_s,
            spares=one.x.program.nodes.spares,
            replications=count,
            days=float(mean[0]),
            days_interval=(float(mean[0] - _TAIL * error), float(mean[0] + _TAIL * error)),
            run_cost=None if np.isnan(mean[1]) else float(mean[1]),
            carbon_kg=None if np.isnan(mean[2]) else float(mean[2]),
            goodput=float(one.seconds[:, WORK].sum() / one.seconds.sum()),
            expected_days=one.expected.wall_s / DAY_S,
            behind=behind,
            behind_interval=ends,
        )

    def _scenario(self, best: _Runner) -> dict[str, Any]:
        """The scenario as it was read, with the best choice."""
        out = self.base.scenario.model_dump(mode="json", exclude_unset=True)
        run = out["run"]
        run.pop("search", None)
        run.setdefault("checkpoint", {}).pop("interval_steps", None)
        run["checkpoint"]["interval"] = round(best.x.program.job.interval_s, 3)
        run["checkpoint"]["tiers"] = [t.model_dump(mode="json", exclude_unset=True) for t in self.sets[best.tiers]]
        run.setdefault("recovery", {})["spares"] = best.x.program.nodes.spares
        return out


_CURVES = ("intervals", "spares", "tiers")
_LAID_OUT = ("behind in closed form", "beaten in the race")
"""Rules that take out choices which were laid out."""


def host_bytes(x: PreparedRun, tiers: Sequence[CheckpointTier]) -> float:
    """Bytes of host memory that a node's copies take: kept ones, those of its peers, parity, and what is written on."""
    scale = (x.run.checkpoint.bytes or x.state.total) / x.state.total if x.state.total else 1.0
    once = scale * x.state.total / x.program.nodes.job
    held = scale * x.state.largest_held * x.prepared.members[0].cluster.devices_per_node
    total = 0.0
    for tier in tiers:
        node = held if tier.of_every_replica else once
        if tier.to == "host":
            total += tier.copies * node
        elif tier.to == "peer":
            total += tier.copies * node * tier.group
        elif tier.to == "erasure":
            total += tier.copies * node * (1.0 + tier.parity / max(tier.group - tier.parity, 1))
        elif tier.mode != "sync" and tier.to in ("storage", "drive"):
            total += node
    return total
