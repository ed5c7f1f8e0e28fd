"""What a technique is, and how its parts are applied level by level.

A technique acts by mechanism only: it rewrites the plan, the graph, a segment, two segments that run together, the
schedule or the step, and pays what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from windtunnel import systems
from windtunnel.systems import Paper
from windtunnel.techniques import selected
from windtunnel.techniques.limits import RESOURCES, Limits, limits_in_file
from windtunnel.techniques.serving import ServingPart

__all__ = [
    "HOOKS",
    "LEVELS",
    "WORK",
    "Applied",
    "Kind",
    "Knob",
    "Level",
    "Limits",
    "Paper",
    "ScheduleCase",
    "ServingPart",
    "Technique",
    "Work",
]

if TYPE_CHECKING:
    from windtunnel.graph import ModelGraph
    from windtunnel.program.segment import Segment
    from windtunnel.schedules import InstructionTable, ScheduleCosts, ScheduleLimits
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.jobs import JobsSpec
    from windtunnel.specs.model import ModelSpec
    from windtunnel.specs.plan import PlanSpec
    from windtunnel.specs.run import RunSpec
    from windtunnel.specs.run_phases import RunPhase
    from windtunnel.specs.scenario import Scenario
    from windtunnel.specs.serving import ServingSpec
    from windtunnel.specs.workload import TrainingSpec
    from windtunnel.techniques.step_options import StepOptions

Level = Literal["plan", "graph", "segment", "pair", "schedule", "step", "run", "jobs", "learning", "programs"]
LEVELS: tuple[Level, ...] = (
    "plan",
    "graph",
    "segment",
    "pair",
    "schedule",
    "step",
    "run",
    "jobs",
    "learning",
    "programs",
)
"""The order in which passes run."""

Work = Literal["training", "serving", "run", "cluster", "learning", "programs"]
WORK: tuple[Work, ...] = ("training", "serving", "run", "cluster", "learning", "programs")
"""What a scenario can be simulated as: one training step, requests, a whole training run (which has steps), jobs
that share a cluster, algorithms that train a small task for real, or programs of model calls."""

Kind = Literal["technique", "search", "predictor", "meter"]
"""What a published system is: a pass that changes what runs, a search among things that can run, a predictor learned
from runs, or a figure read from runs. The last three rewrite no scenario."""

HOOKS: Mapping[str, tuple[Level, ...]] = {
    "plan": ("plan", "schedule"),
    "decide": ("plan",),
    "workload": ("plan",),
    "cluster": ("plan",),
    "graph": ("graph",),
    "segment": ("segment",),
    "pair": ("pair",),
    "schedule": ("schedule",),
    "step": ("step",),
    "run": ("run",),
    "run_section": ("run",),
    "jobs_section": ("jobs",),
    "algorithm": ("learning",),
    "strategy": ("programs",),
}
"""Hook → levels that it acts at; a `plan` hook may choose the schedule."""
_SECTIONS: Mapping[str, Work] = {
    "run_section": "run",
    "jobs_section": "cluster",
    "algorithm": "learning",
    "strategy": "programs",
}
"""Hooks that do not act on a training step → what they act on."""


_ON_CARD = Paper("", 0, "")


@dataclass(frozen=True, slots=True)
class Knob:
    """One parameter of a technique."""

    default: Any
    low: float | None = None
    high: float | None = None
    doc: str = ""
    choices: tuple[Any, ...] = ()
    given: bool = False
    """A fact of hardware or requests, not a choice: advice leaves it at its default."""

    def problem(self, value: Any) -> str | None:
        """Which rule a value breaks, None when it may be used."""
        if self.choices:
            return None if value in self.choices else f"must be one of {', '.join(map(str, self.choices))}"
        if isinstance(self.default, bool):
            return None if isinstance(value, bool) else "must be true or false"
        if self.low is None and self.high is None:
            return None
        if value is None and self.default is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"must be a number, {self._range()}"
        if isinstance(self.default, int) and not isinstance(value, int):
            return f"must be a whole number, {self._range()}"
        inside = (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        return None if inside else f"must be {self._range()}"

    def _range(self) -> str:
        if self.high is None:
            return f"{self.low:g} or more"
        return f"{self.high:g} or less" if self.low is None else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleCase:
    """What a pipeline is to run. A hook returns another one: other limits, another id, or a finished table."""

    id: str
    p: int
    m: int
    v: int
    costs: ScheduleCosts | None = None
    """Seconds per stage and chunk; None before they are known. A table made then decides placement and whether
    backward is split, which the later one must keep."""
    limits: ScheduleLimits | None = None
    own: InstructionTable | None = None
    """The table itself, where no schedule makes it."""

    def table(self) -> InstructionTable:
        """What the stages run.

        Raises:
            ScheduleError: sizes that the schedule cannot run.
        """
        from windtunnel import schedules

        if self.own is not None:
            return self.own
        return schedules.build(self.id, self.p, self.m, self.v, self.costs, self.limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """One published system. Each hook belongs to a level; absent hooks do nothing.

    Where `paper` is absent, it comes from the card `system` (absent: that of the technique's own id). From a card of
    its own id come family, summary, levels, kind, status and what else a card states.
    """

    id: str
    mechanism: str = ""
    """What it does and what that costs, paragraphs apart; absent: the text at the head of its module."""
    system: str = ""
    """Id of the card of its paper (`windtunnel.systems`), where that is not its own id."""
    family: str = ""
    summary: str = ""
    paper: Paper = _ON_CARD
    levels: tuple[Level, ...] = ()
    status: Literal["works", "partial", "planned"] = "works"
    kind: Kind = "technique"
    about: tuple[Work, ...] = ()
    """What a search, a predictor or a meter is about; a technique says it by its hooks."""
    use: str = ""
    """How a search, a predictor or a meter is run: a command, or the module that holds it."""
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    edits: tuple[tuple[Level, str], ...] = ()
    """(level, tag) pairs that it rewrites; two techniques editing the same pair conflict unless one names the other in
    `after`."""
    after: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """Ids that it cannot do without; they run earlier."""
    selects: Mapping[str, Any] = field(default_factory=dict)
    """Entries of other registries that it switches on, by slot (`techniques.selected.SLOTS`): `schedule`, `device`,
    `scale_up`, `scale_out`, `collective.tp.all_reduce`, `library`, `policy`, `queue`, `router`. A value may name a
    knob: `{"schedule": "$order"}`."""
    applies_to: Callable[[Scenario], str | None] = lambda _: None
    """A reason why it does not apply, or None when it does: to a training step, or to what is served."""
    applies_to_run: Callable[[Scenario], str | None] = lambda _: None
    """The same of its `run_section` for the scenario of a whole run."""
    applies_to_jobs: Callable[[Scenario], str | None] = lambda _: None
    """The same of its `jobs_section` for jobs on a cluster."""
    plan: Callable[[PlanSpec, dict[str, Any]], PlanSpec] | None = None
    graph: Callable[[ModelGraph, dict[str, Any]], ModelGraph] | None = None
    segment: Callable[[Segment, ClusterSpec, dict[str, Any]], Segment] | None = None
    workload: Callable[[TrainingSpec, dict[str, Any]], TrainingSpec] | None = None
    """Level plan: settings of the training section. Twice must be the same as once."""
    cluster: Callable[[ClusterSpec, dict[str, Any]], ClusterSpec] | None = None
    """Level plan: another device variant or network."""
    decide: Callable[[PlanSpec, ModelSpec, ClusterSpec, TrainingSpec, dict[str, Any]], PlanSpec] | None = None
    """Level plan: what depends on the model or the cluster, groups of unlike devices among them. Twice must be the same
    as once; runs before the `plan` hooks."""
    reads: tuple[str, ...] = ()
    """Fields of the plan that `decide` looks at; absent: any. A search asks once for plans that are alike in them."""
    pair: Callable[[Segment, Segment, ClusterSpec, dict[str, Any]], Segment | None] | None = None
    """Launches of a forward and of a backward that a schedule runs as a unit (`InstructionTable.joined`) → one segment
    of both, with the same work and any number of streams (collectives on `comm`, `comm:…`); None: kernels in turn.
    A kernel's `sm` comes as 1: whoever lets two share SMs says with how many each keeps its speed."""
    schedule: Callable[[ScheduleCase, dict[str, Any]], ScheduleCase] | None = None
    """Level schedule: called without costs and with them; where parts sit, whether backward is split and whether parts
    are skipped must be the same in both."""
    step: Callable[[StepOptions, dict[str, Any]], StepOptions] | None = None
    run: Callable[[tuple[RunPhase, ...], dict[str, Any]], tuple[RunPhase, ...]] | None = None
    """Level run: stretches of a training run whose steps differ, such as a warm-up `without` the technique itself."""
    run_section: Callable[[RunSpec, Scenario, dict[str, Any]], RunSpec] | None = None
    """Level run: tiers, causes and recovery of a whole training run (`run:`). Its failure profile comes looked up
    (`run.failures` is never a name); what is not for this run is left as it is. May raise `BadInput`."""
    jobs_section: Callable[[JobsSpec, dict[str, Any]], JobsSpec] | None = None
    """Level jobs: policies, placement and power of jobs that share a cluster (`jobs:`). May raise `BadInput`."""
    algorithm: str = ""
    """Level learning: id of the algorithm that a comparison of `windtunnel learn` gets. Knobs of the same names are
    handed to it."""
    strategy: str = ""
    """Level programs: id of the strategy that a comparison of `windtunnel reason` gets. Knobs of the same names are
    handed to it."""
    serving: ServingPart | None = None
    """What it changes about serving."""
    saves: str = ""
    """Resource whose cost it hides or cuts: where that resource is free it gains nothing."""
    resource: str = ""
    """What it relieves in terms of `limits.RESOURCES`; absent: `saves`, where that is one of them."""
    quality: str = ""
    """What it may cost in accuracy or convergence, which no prediction counts; empty: results stay what they were."""
    lossless: Mapping[str, Any] = field(default_factory=dict)
    """Knobs under which results stay what they were, where `quality` speaks of its defaults."""
    adds: str = ""
    """Hardware that it takes next to the cluster's, which a comparison of times alone does not pay for."""
    where: Mapping[str, str] = field(default_factory=dict)
    """Framework or engine → option under which it has it."""
    limits: Limits | None = None
    """Cases for the generated limit tests; absent: those of its file in `limit_cases/` (see `limit_cases`)."""
    experiment: str = ""
    """Folder under `papers/` that tests the headline claim; without one the status is at most `partial`."""
    missing: str = ""
    """`partial`: what is left out."""

    def __post_init__(self) -> None:
        """Read its card, where it states no paper."""
        if self.paper is not _ON_CARD:
            return
        card = systems.card(self.system or self.id)
        facts: dict[str, Any] = {"paper": card.paper}
        if not self.system:
            facts |= {
                name: getattr(card, name) for name in ("family", "summary", "levels", "status", "kind", "about", "use")
            }
            facts |= {"missing": card.limits, "experiment": next(iter(card.claims), "")}
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @property
    def limit_cases(self) -> Limits | None:
        """Cases for the generated limit tests; a technique with status `works` has them, declared or in a file."""
        return self.limits or limits_in_file(self.id)

    @property
    def scopes(self) -> tuple[Work, ...]:
        """What it acts on, in the order of `WORK`; training where it names nothing."""
        found: set[str] = selected.scopes(self.selects)
        found |= {_SECTIONS.get(hook, "training") for hook in HOOKS if getattr(self, hook)}
        found |= {"serving"} if self.serving is not None else set()
        found |= {*self.about}
        return tuple(work for work in WORK if work in found) or ("training",)

    @property
    def relieves(self) -> str:
        """The resource that it relieves, a key of `limits.RESOURCES`; empty where none is named."""
        return self.resource or (self.saves if self.saves in RESOURCES else "")

    @property
    def follows(self) -> set[str]:
        """Ids that it runs later than."""
        return {*self.after, *self.requires}

    def idle(self, work: Work) -> str:
        """Why it cannot act on this kind of work at all; empty where it can.

        A run has training steps, and so has the target of algorithms that learn; programs are served.
        """
        wanted = {_BELOW.get(work, work), work}
        return "" if wanted & {*self.scopes} else f"it acts on {' and '.join(_NAMES[x] for x in self.scopes)} alone"

    def reason(self, work: Work, scenario: Scenario) -> str | None:
        """Why it does nothing in a scenario that is simulated as this; None where it does something."""
        if self.kind != "technique":
            return f"it is a {self.kind} and changes nothing that runs; {self.use}"
        if why := self.idle(work):
            return why
        if work == "cluster":
            return self.applies_to_jobs(scenario)
        if (work == "learning" and self.algorithm) or (work == "programs" and self.strategy):
            return None
        if work != "run":
            return self.applies_to(scenario)
        asked = {"training": self.applies_to, "run": self.applies_to_run}
        reasons = [asked[part](scenario) for part in self.scopes if part in asked]
        return None if None in reasons else "; ".join(str(one) for one in reasons)


_NAMES: Mapping[str, str] = {
    "training": "training",
    "serving": "serving",
    "run": "whole runs (`windtunnel run`)",
    "cluster": "jobs on a cluster (`windtunnel cluster`)",
    "learning": "algorithms (`windtunnel learn`)",
    "programs": "programs of model calls (`windtunnel reason`)",
}
_BELOW: Mapping[Work, Work] = {"run": "training", "learning": "training", "programs": "serving"}
"""Work → the work that it is made of, on which techniques act too."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A technique with its knobs set."""

    technique: Technique
    knobs: dict[str, Any]

    def on_plan(self, plan: PlanSpec) -> PlanSpec:
        """Plan-level part."""
        plan = self.technique.plan(plan, self.knobs) if self.technique.plan else plan
        return selected.on_plan(self.technique.selects, plan, self.knobs)

    def on_decision(self, plan: PlanSpec, model: ModelSpec, cluster: ClusterSpec, training: TrainingSpec) -> PlanSpec:
        """Plan-level part that looks at the model and the cluster."""
        return self.technique.decide(plan, model, cluster, training, self.knobs) if self.technique.decide else plan

    def on_workload(self, training: TrainingSpec) -> TrainingSpec:
        """Plan-level part that rewrites the training section."""
        return self.technique.workload(training, self.knobs) if self.technique.workload else training

    @property
    def changes_cluster(self) -> bool:
        """Whether devices or networks are others."""
        return self.technique.cluster is not None or not selected.CLUSTER.isdisjoint(self.technique.selects)

    def on_cluster(self, cluster: ClusterSpec) -> ClusterSpec:
        """Plan-level part that exchanges devices or networks."""
        cluster = self.technique.cluster(cluster, self.knobs) if self.technique.cluster else cluster
        return selected.on_cluster(self.technique.selects, cluster, self.knobs)

    def on_graph(self, graph: ModelGraph) -> ModelGraph:
        """Graph-level part."""
        return self.technique.graph(graph, self.knobs) if self.technique.graph else graph

    def on_segment(self, segment: Segment, cluster: ClusterSpec) -> Segment:
        """Segment-level part."""
        return self.technique.segment(segment, cluster, self.knobs) if self.technique.segment else segment

    def on_pair(self, forward: Segment, backward: Segment, cluster: ClusterSpec) -> Segment | None:
        """Two segments as one; None where it leaves them one after the other."""
        return self.technique.pair(forward, backward, cluster, self.knobs) if self.technique.pair else None

    def on_schedule(self, case: ScheduleCase) -> ScheduleCase:
        """Schedule-level part."""
        return self.technique.schedule(case, self.knobs) if self.technique.schedule else case

    def on_step(self, options: StepOptions) -> StepOptions:
        """Step-level part."""
        return self.technique.step(options, self.knobs) if self.technique.step else options

    def on_run(self, phases: tuple[RunPhase, ...]) -> tuple[RunPhase, ...]:
        """Run-level part of training."""
        return self.technique.run(phases, self.knobs) if self.technique.run else phases

    def on_run_section(self, run: RunSpec, scenario: Scenario) -> RunSpec:
        """The `run:` section as it leaves it."""
        return self.technique.run_section(run, scenario, self.knobs) if self.technique.run_section else run

    def on_jobs_section(self, jobs: JobsSpec) -> JobsSpec:
        """The `jobs:` section as it leaves it."""
        return self.technique.jobs_section(jobs, self.knobs) if self.technique.jobs_section else jobs

    def on_serving(self, serving: ServingSpec) -> ServingSpec:
        """Serving: part that rewrites the section."""
        part = self.technique.serving
        serving = part.settings(serving, self.knobs) if part and part.settings else serving
        return selected.on_serving(self.technique.selects, serving, self.knobs)
