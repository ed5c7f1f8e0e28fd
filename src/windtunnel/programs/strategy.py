"""What a strategy is: the program that it makes of a problem, and how often that ends right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windtunnel.arrays import Floats, Ints, Mask
from windtunnel.errors import ProblemList
from windtunnel.programs.quality import Quality
from windtunnel.programs.workload import Workload
from windtunnel.serving.traffic.program_graph import ProgramGraph
from windtunnel.techniques.base import Knob

Knobs = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffPeak:
    """Calls that are served before, by themselves, while devices are idle."""

    graph: ProgramGraph
    ends: Ints
    """Last nodes."""
    price_share: float
    """Price of idle devices, in their price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """Programs of a strategy, once their nodes are in the graph."""

    ends: Ints
    """(P,) node whose end is the end of each problem."""
    off_peak: OffPeak | None = None
    """Work whose dollars and joules the problems share and whose time they do not wait for."""
    right: Mask | None = None
    """(P,) whether each problem ended right, as drawn; None where only `Strategy.success` tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Banded:
    """Success with what its form leaves open, next to the interval of the population."""

    mean: Floats
    """(Q,) chance that a problem ends right."""
    low: Floats
    high: Floats
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """An entry of `STRATEGIES`."""

    id: str
    summary: str
    build: Callable[[ProgramGraph, Workload, Knobs], Built]
    """Adds the nodes of all problems to the graph."""
    success: Callable[[Floats, Knobs, Quality], Floats | Banded] | None = None
    """(Q,) success probabilities of one attempt → (Q,) chances that a problem ends right. None: nothing is known of
    the strategy's effect on quality, and its accuracy is not stated."""
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    scores: Callable[[Knobs], bool] = lambda _: False
    """Whether, with these knobs, answers are scored by calls to the verifier."""
    tools: tuple[str, ...] = ()
    """Tools that it calls; `programs.tools` must have them."""
    tools_of: Callable[[Knobs], tuple[str, ...]] = lambda _: ()
    """Further tools that it calls with these knobs."""
    roles_of: Callable[[Knobs], tuple[str, ...]] = lambda _: ()
    """Further models that it calls with these knobs; `programs.roles` must have them."""
    check: Callable[[Knobs, ProblemList, str], None] = lambda knobs, problems, field: None
    """Adds what knobs contradict, each under `field`.name."""
    samples: Callable[[Knobs], float | None] = lambda knobs: knobs.get("n")
    """The number n of attempts that a front shows; None where the word has no meaning."""
    source: str = ""
    """Paper, section or equation."""
