"""What a command is: its record, to whom it reports while it runs, and what sweeps know of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from windtunnel.errors import UNSET, BadInput, Problem
from windtunnel.scenarios.source import FieldsInFolder
from windtunnel.specs.settings import with_settings

if TYPE_CHECKING:
    from windtunnel.scenarios.source import Source

P = ParamSpec("P")
T = TypeVar("T")


def _ignore(*_: Any) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """To whom a command reports while it runs: a function for each kind of news, by default one that ignores it."""

    note: Callable[[str], None] = _ignore
    """Sentences about decisions, such as the plan that the planner chose."""
    say: Callable[[str], None] = _ignore
    """How far the work is, in words."""
    searching: Callable[[Any], None] = _ignore
    """`Progress` of a planner's search."""
    count: Callable[[int, int], None] = _ignore
    """Pieces of work done, and in all."""
    planned: Callable[[Source, tuple[str, ...]], None] = _ignore
    """The scenario and the settings that are predicted, once the plan stands and before anything is simulated."""


SILENT = Listener()


@dataclass(slots=True)
class Shared:
    """What the cells of one process share: prices and tables that change no result."""

    entries: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """One cell of a sweep as a command sees it."""

    source: FieldsInFolder
    """The scenario."""
    draw: int | None
    """Number of the draw; None: the prediction itself."""
    seed: int

    def with_settings(self, settings: dict[str, Any]) -> FieldsInFolder:
        """The scenario with dotted fields set."""
        return FieldsInFolder(with_settings(self.source, settings), self.source.folder)

    def number(self, section: str, name: str, otherwise: int) -> int:
        """A whole number of a section of the scenario."""
        return int((self.source.get(section) or {}).get(name, otherwise))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """What a draw of a sweep varies; one of `settings` and `result` is given."""

    what: str
    settings: Callable[[Question], dict[str, Any]] | None = None
    """The fields of the scenario that the draw sets."""
    result: Callable[[Question, Shared], dict[str, Any]] | None = None
    """The drawn result itself, where a draw is no other scenario."""


def _nothing(_: Shared) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class InSweeps:
    """What sweeps know of a command."""

    cell_cpu_s: float = 0.1
    """CPU seconds of a typical cell, warm; what an estimate takes before the first cell is done."""
    together: int = 1
    """Neighbouring cells at most that one process computes one after the other, because they share prices."""
    objectives: tuple[str, ...] = ()
    """Columns of which less is better, for `frontier`. One that exists for each algorithm counts with the least."""
    options: Callable[[Shared], dict[str, Any]] = _nothing
    """Options of `run` that the cells of one process share."""


def _no_options(_: Mapping[str, Any]) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command, for every entry point."""

    id: str
    needs: tuple[tuple[str, ...], ...]
    """Sections of a scenario that it needs, each with what may stand in its place."""
    run: Callable[..., Any]
    """`run(source, overrides=(), *, full=True, listener=SILENT, …)` → the typed result, whose `to_dict()` is what
    `--json` prints. `full`: also what is simulated for a reader alone, such as sensitivities. Where the scenario leaves
    its plan open, it is the planner's choice. Raises `BadInput` and `Infeasible`."""
    result: str
    """Type of the result, `module:name`."""
    view: str | Callable[[Any], str]
    """Name of the view that shows the result, or the function that says which; empty where none does."""
    figures: tuple[str, ...] = ()
    """Fields of the result that a short answer has, the most wanted first."""
    main: str = ""
    """Field of the result that its interval and its confidence are of."""
    own_section: str = ""
    """Section of a scenario that means this command, where no command is named."""
    snippet: str = ""
    """YAML of the sections that it needs, which makes a scenario of a model and a cluster right for it."""
    for_report: Mapping[str, Any] = field(default_factory=dict)
    """Options of `run` with which the result holds what the view draws."""
    from_page: Callable[[Mapping[str, Any]], dict[str, Any]] = _no_options
    """Options of `run` from what a page of the studio sends."""
    explained_by: Callable[[Source], Any] | None = None
    """Gives the chain behind the figures of its result; None where there is none."""
    part_of: str = ""
    """Command of whose result this is one part; empty for commands that the command line has."""
    scenarios: int = 1
    """Scenarios that it takes."""
    draws: Draws | None = None
    sweep: InSweeps | None = None
    """None where it does not sweep."""

    def view_of(self, result: Any) -> str:
        """Name of the view that shows a result."""
        return self.view if isinstance(self.view, str) else self.view(result)

    def missing(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Sections that a scenario lacks."""
        return tuple(sections[0] for sections in self.needs if not any(name in fields for name in sections))


def with_snippet(snippet: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make the error for a missing section show what such a section may look like."""

    def decorate(run: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(run)
        def running(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return run(*args, **kwargs)
            except BadInput as error:
                shown = [_shown(problem, snippet) for problem in error.problems]
                if shown == list(error.problems):
                    raise
                raise BadInput(shown) from error

        return running

    return decorate


def _shown(problem: Problem, snippet: str) -> Problem:
    """A problem, with the lines of the snippet on one line where a whole section is missing."""
    import yaml

    if problem.value is not UNSET or not problem.rule.startswith("is required"):
        return problem
    section = yaml.safe_load(snippet).get(problem.field)
    if section is None:
        return problem
    text = yaml.safe_dump({problem.field: section}, default_flow_style=True, width=10_000, sort_keys=False)
    return replace(problem, rule=f"{problem.rule}; for example {text.strip()[1:-1]}")
