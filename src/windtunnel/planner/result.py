"""What a planner answers: the best plan with its proof, and how far a search is while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from windtunnel.planner.analysis.explain_best import Why
from windtunnel.planner.analysis.recommend import Choice
from windtunnel.planner.analysis.run_finalists import Finalist
from windtunnel.planner.analysis.stability import Stability
from windtunnel.planner.search.branch_and_bound import Proof
from windtunnel.training.results.training_result import TrainingResult
from windtunnel.versions import RESULT_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a search is."""

    candidates: int
    """Plans of all clusters."""
    screened: int
    """Candidates that have bounds; those of clusters that cannot be better need none."""
    simulated: int
    best: float | None
    """Value of the first objective; None before a plan was found."""
    next_bound: float | None
    """The best that a plan which was not simulated could be; None while bounds are computed."""
    elapsed_s: float
    doing: str = ""
    """What goes on after the search."""
    objective: str = "step_time"
    """What `best` and `next_bound` are values of."""


class Stopped(KeyboardInterrupt):
    """Ctrl-C before any plan was found."""

    def __init__(self, candidates: int, screened: int, simulated: int) -> None:
        super().__init__(candidates, screened, simulated)
        self.candidates, self.screened, self.simulated = candidates, screened, simulated


ReportProgress = Callable[[Progress], None]
"""Called with the state of a search as it goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One simulated plan of the table."""

    plan: dict[str, Any]
    """Fields that differ between candidates."""
    step_time_s: float
    bound_s: float
    tokens_per_s: float
    reserved_bytes: float | None
    fits: bool | None
    """None where the plan was worse than one that fits, so that its memory was not asked for."""
    values: dict[str, float] = field(default_factory=dict)
    """All objectives and limited metrics; `memory_headroom` is missing where memory was not asked for."""
    cluster: dict[str, Any] = field(default_factory=dict)
    """device and nodes."""
    precision: str = ""
    missed: tuple[str, ...] = ()
    """Limits that it breaks, memory apart."""
    whole_run: dict[str, Any] = field(default_factory=dict)
    """Expected figures of its run in closed form (`planner.whole_run.WholeRun`), where they were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """The best plan, what it was compared with, and the proof that nothing in the space is better."""

    best: TrainingResult
    scenario: dict[str, Any]
    """The scenario with the best plan filled in: what `train` takes."""
    frontier: tuple[Ranked, ...]
    """Simulated plans, best first."""
    evaluated: int
    pruned: dict[str, int]
    """memory, bound, refused, each limit → candidates."""
    excluded: dict[str, int]
    """Rule → axis combinations (or clusters) that it took out before they became candidates."""
    proof: Proof
    elapsed_s: float
    screened_per_s: float
    by_axis: dict[str, dict[str, float]]
    """tp and pp → value → smallest bound of a plan that may fit, seconds; on the best plan's cluster."""
    written: TrainingResult | None = None
    """The scenario's own plan, where the search was free of it."""
    objectives: tuple[str, ...] = ("step_time",)
    front: tuple[Ranked, ...] = ()
    """Plans that no other beats in all objectives, by the first; empty for one objective."""
    memory_fraction: float = 1.0
    """Share of device memory that plans may take: `search.limits.memory_fraction`."""
    without_margin: Ranked | None = None
    """A better simulated plan that takes memory which `search.limits.memory_fraction` keeps free; `why` knows the
    best one, simulated in the search or not."""
    choice: Choice | None = None
    """Which plan to take; None where step time does not decide, or the search was interrupted."""
    why: Why | None = None
    """What the search knows beyond its best plan, where it was asked."""
    searched: dict[str, list[Any]] = field(default_factory=dict)
    """Axis → values that candidates have, of axes with more than one."""
    not_searched: dict[str, str] = field(default_factory=dict)
    """Axis → its one value and why it stood still."""
    left_out: str = ""
    """Why `why`, asked for, is missing."""
    stopped: str | None = None
    """What ended the search before it was complete: `time`, or `interrupted`."""
    stability: Stability | None = None
    """How far the cluster may change before another layout wins, where it was asked."""
    finalists: tuple[Finalist, ...] = ()
    """Where the objective is of the whole run: the nearest plans, run many times."""
    compared: dict[str, float | None] = field(default_factory=dict)
    """On a heterogeneous cluster: step seconds of equal shares and of each group alone; None where nothing fits."""

    def _repr_html_(self) -> str:
        from windtunnel.planner import notebook
        from windtunnel.training.results.notebook import figures

        rows = [r for r in self.frontier if r.fits is not False and not r.missed] or list(self.frontier)
        names = notebook.differing([r.plan for r in rows])
        best = [name for name, r in zip(names, rows, strict=True) if r.step_time_s == self.best.step_time_s]
        own = [
            ("best plan", " ".join(best[:1])),
            *figures(self.best),
            ("search", f"{self.proof.candidates:,} candidates, {self.proof.simulated:,} simulated"),
        ]
        bars = [(n, r.step_time_s, f"{r.step_time_s:.4g} s") for n, r in zip(names, rows, strict=True)]
        return notebook.html(self.best.scenario_name or "plan", own, bars, "step time, seconds")

    def __repr__(self) -> str:
        found = f"{self.proof.simulated:,} of {self.proof.candidates:,} plans simulated"
        return f"<search: {found}; best {self.best!r}>"

    @property
    def gain(self) -> float | None:
        """How much shorter the best step is than that of the scenario's own plan, as a share of it."""
        return None if self.written is None else 1.0 - self.best.step_time_s / self.written.step_time_s

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `--json`."""
        return {
            "schema_version": RESULT_SCHEMA,
            "best": self.best.to_dict(),
            "scenario": self.scenario,
            "objectives": self.objectives,
            "frontier": [_fields(r) for r in self.frontier],
            "front": [_fields(r) for r in self.front],
            "memory_fraction": self.memory_fraction,
            "without_margin": None if self.without_margin is None else _fields(self.without_margin),
            "evaluated": self.evaluated,
            "pruned": self.pruned,
            "excluded": self.excluded,
            "written": None if self.written is None else self.written.to_dict(),
            "gain": self.gain,
            "elapsed_s": self.elapsed_s,
            "screened_per_s": self.screened_per_s,
            "by_axis": self.by_axis,
            "proof": {**_fields(self.proof), "gap": self.proof.gap},
            "gap": self.proof.gap,
            "stopped": self.stopped,
            "searched": self.searched,
            "not_searched": self.not_searched,
            "compared": {
                name: {"step_time_s": s, "gain": s and 1.0 - self.best.step_time_s / s}
                for name, s in self.compared.items()
            },
            "recommended": None if self.choice is None else asdict(self.choice),
            "finalists": [asdict(one) for one in self.finalists],
            "left_out": self.left_out,
            "why": None if self.why is None else self.why.to_dict(),
            "stability": None if self.stability is None else asdict(self.stability),
        }


def _fields(record: Ranked | Proof) -> dict[str, Any]:
    return {name: getattr(record, name) for name in type(record).__slots__}
