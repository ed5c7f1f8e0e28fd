"""The plan that a scenario leaves open is the planner's choice, for every command that needs one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windtunnel.commands.base import Listener
from windtunnel.scenarios.source import FieldsInFolder, Source, folder_of

if TYPE_CHECKING:
    from windtunnel.planner.result import Progress

MOST_PLANS = 10_000
"""Plans of a scenario without `plan:` and `search:` that are all looked at, some seconds on one core; above that the
axes are powers of two."""
_COARSE = (
    ("tp", "[1,2,4,8]"),
    ("pp", "[1,2,4,8,16]"),
    ("vpp", "[1,2,4]"),
    ("cp", "[1,2,4,8]"),
    ("ep", "[1,4,8,16,32,64]"),
    ("mbs", "[1,2,4]"),
)
"""Axis → its sizes where all plans are too many: those that public recipes of large models use."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A scenario whose plan stands."""

    source: Source
    overrides: tuple[str, ...]
    """Settings that still apply."""
    chosen: tuple[str, ...]
    """What the planner chose: `plan`, or axes such as plan.tp. The interval of a prediction counts them as assumed."""


def planned(source: Source, overrides: Sequence[str], listener: Listener) -> Planned:
    """The scenario that a command predicts: with the planner's choice where it leaves its plan open.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    taken, settings, words = with_recommended_plan(source, overrides, report=listener.searching)
    if words:
        listener.note(words)
    listener.planned(taken, settings)
    return Planned(taken, settings, chosen_by_planner(source, overrides, taken))


class _ManyPlans(Exception):
    """A search was left because its space is large."""


def with_recommended_plan(
    source: Source, overrides: Sequence[str] = (), *, report: Callable[[Any], None] | None = None
) -> tuple[Source, tuple[str, ...], str]:
    """The scenario with the planner's recommendation for axes that it leaves to the planner.

    Axes are left to the planner where a training scenario has no `plan`, or says `auto` for one of them; axes with
    numbers stay.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.
        report: called with a `Progress` as a search goes on.

    Returns:
        The scenario to predict, the settings that still apply, and a sentence that says what was taken; the empty
        sentence where nothing was left open.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.catalog.load import load
    from windtunnel.scenarios.open_plan import axes_left_to_planner

    given = tuple(overrides)
    left = axes_left_to_planner(source, given)
    if not left:
        return source, given, ""
    scenario, _, _ = load(source, given)
    if scenario.training is None:
        return source, given, ""
    from windtunnel.errors import BadInput, Infeasible
    from windtunnel.planner.plan_training import plan
    from windtunnel.training.results.one_line import plan_line

    own = scenario.search is not None
    coarse = () if own else tuple(f"search.space.{a}={v}" for a, v in _COARSE if {"plan", f"plan.{a}"} & {*left})
    among = ""

    def few(progress: Progress) -> None:
        if coarse and not progress.screened and progress.candidates > MOST_PLANS:
            raise _ManyPlans
        if report is not None:
            report(progress)

    try:
        try:
            found = plan(source, overrides=given, report=few)
        except _ManyPlans:
            found, among = plan(source, overrides=(*given, *coarse), report=report), ", among axes of powers of two"
    except Infeasible as error:
        return source, given, f"plan: none was given and none fits ({error}); the defaults are predicted"
    except BadInput as error:
        return source, given, f"plan: none was given and none was searched ({error.problems[0].rule})"
    taken = found.choice.scenario if found.choice is not None else found.scenario
    line = plan_line(found.best.plan if found.choice is None else found.choice.plan)
    own_folder = FieldsInFolder(dict(taken), folder_of(source))
    return own_folder, (), f"plan: left to the planner, which recommends {line}{among}"


def chosen_by_planner(source: Source, overrides: Sequence[str], taken: Source) -> tuple[str, ...]:
    """What the planner chose where `with_recommended_plan` took its plan: `plan`, or axes such as plan.tp.

    `simulate_training` takes it as `chosen_by_planner`, so that the interval knows that the mapping was assumed.

    Args:
        source: The scenario as a user wrote it.
        overrides: `key=value` settings as `--set` takes them.
        taken: The scenario that `with_recommended_plan` returned.
    """
    from windtunnel.scenarios.open_plan import axes_left_to_planner

    return () if taken is source else axes_left_to_planner(source, overrides)
