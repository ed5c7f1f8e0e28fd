"""What a technique is, and how its parts are applied level by level.

A technique acts by mechanism only: it rewrites the graph, a segment, the schedule or the step, and pays what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from windtunnel.techniques.limits import Limits
from windtunnel.techniques.serving import ServingPart

__all__ = ["LEVELS", "Applied", "Knob", "Level", "Limits", "Paper", "ServingPart", "Technique"]

if TYPE_CHECKING:
    from windtunnel.graph import ModelGraph
    from windtunnel.program.segment import Segment
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.plan import PlanSpec
    from windtunnel.specs.scenario import Scenario
    from windtunnel.specs.serving import ServingSpec
    from windtunnel.techniques.step_options import StepOptions

Level = Literal["plan", "graph", "segment", "pair", "schedule", "step", "run"]
LEVELS: tuple[Level, ...] = ("plan", "graph", "segment", "pair", "schedule", "step", "run")
"""The order in which passes run."""


@dataclass(frozen=True, slots=True)
class Paper:
    """Where a technique was published."""

    title: str
    year: int
    link: str
    authors: str = ""
    venue: str = ""

    def line(self) -> str:
        """One line for lists of methods used."""
        return f"{self.title} ({self.year}) {self.link}"

    def bibtex(self, key: str) -> str:
        """A BibTeX entry."""
        venue = f"  journal = {{{self.venue}}},\n" if self.venue else ""
        return (
            f"@article{{{key},\n  title = {{{self.title}}},\n  author = {{{self.authors}}},\n{venue}"
            f"  year = {{{self.year}}},\n  url = {{{self.link}}}\n}}"
        )


@dataclass(frozen=True, slots=True)
class Knob:
    """One parameter of a technique."""

    default: Any
    low: float | None = None
    high: float | None = None
    doc: str = ""
    choices: tuple[Any, ...] = ()

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


@dataclass(frozen=True, slots=True)
class Technique:
    """One published system. Each hook belongs to a level; absent hooks do nothing."""

    id: str
    family: str
    summary: str
    paper: Paper
    levels: tuple[Level, ...]
    status: Literal["works", "partial", "planned"] = "works"
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    edits: tuple[tuple[Level, str], ...] = ()
    """(level, tag) pairs that it rewrites; two techniques editing the same pair conflict unless one names the other in
    `after`."""
    after: tuple[str, ...] = ()
    applies_to: Callable[[Scenario], str | None] = lambda _: None
    """A reason why it does not apply, or None when it does."""
    plan: Callable[[PlanSpec, dict[str, Any]], PlanSpec] | None = None
    graph: Callable[[ModelGraph, dict[str, Any]], ModelGraph] | None = None
    segment: Callable[[Segment, ClusterSpec, dict[str, Any]], Segment] | None = None
    step: Callable[[StepOptions, dict[str, Any]], StepOptions] | None = None
    serving: ServingPart | None = None
    """What it changes about serving."""
    saves: str = ""
    """Resource whose cost it hides or cuts: where that resource is free it gains nothing."""
    limits: Limits | None = None
    """Cases for the generated limit tests; a technique with status `works` declares them."""
    experiment: str = ""
    """Folder under `papers/` that tests the headline claim; without one the status is at most `partial`."""
    missing: str = ""
    """`partial`: what is left out."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """What it acts on: training, serving or both."""
        training = bool(self.plan or self.graph or self.segment or self.step) or self.serving is None
        return ("training",) * training + ("serving",) * (self.serving is not None)

    def idle(self, *, serving: bool) -> str:
        """Why it cannot act on this kind of work at all; empty where it can."""
        wanted = "serving" if serving else "training"
        return "" if wanted in self.scopes else f"it acts on {self.scopes[0]} alone"


@dataclass(frozen=True, slots=True)
class Applied:
    """A technique with its knobs set."""

    technique: Technique
    knobs: dict[str, Any]

    def on_plan(self, plan: PlanSpec) -> PlanSpec:
        """Plan-level part."""
        return self.technique.plan(plan, self.knobs) if self.technique.plan else plan

    def on_graph(self, graph: ModelGraph) -> ModelGraph:
        """Graph-level part."""
        return self.technique.graph(graph, self.knobs) if self.technique.graph else graph

    def on_segment(self, segment: Segment, cluster: ClusterSpec) -> Segment:
        """Segment-level part."""
        return self.technique.segment(segment, cluster, self.knobs) if self.technique.segment else segment

    def on_step(self, options: StepOptions) -> StepOptions:
        """Step-level part."""
        return self.technique.step(options, self.knobs) if self.technique.step else options

    def on_serving(self, serving: ServingSpec) -> ServingSpec:
        """Serving: part that rewrites the section."""
        part = self.technique.serving
        return part.settings(serving, self.knobs) if part and part.settings else serving
