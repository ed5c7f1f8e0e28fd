"""`plan`: the best plan of a scenario's search space, or the best deployment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from windtunnel.commands import COMMANDS
from windtunnel.commands.base import SILENT, Command, Listener, with_snippet
from windtunnel.commands.explanations import of_step
from windtunnel.commands.train import SNIPPET
from windtunnel.errors import Infeasible
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    from windtunnel.planner.rank_devices import DeviceRanking
    from windtunnel.planner.result import PlanResult
    from windtunnel.planner.serving.plan_deployment import ServingPlan
    from windtunnel.specs.scenario import Scenario

ALL_SEARCHED = "plan: the scenario sets every axis; its layout is searched anew, as --free does"


@with_snippet(SNIPPET)
def run(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    full: bool = True,
    listener: Listener = SILENT,
    free: bool | None = None,
    explain: bool | None = None,
    **more: Any,
) -> PlanResult | ServingPlan | DeviceRanking:
    """The best plan that keeps to the limits, with the proof.

    With `search.target: serving` the best deployment; with `cluster.device: any` the best plan of every priced device.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`; its `search` says what may vary.
        overrides: Settings `key=value` as `--set` takes them.
        full: Also say why the best plan is the best, unless `explain` says otherwise.
        listener: Is notified how far the search is.
        free: Search the layout that the scenario's plan sets as well. None: where the plan sets every axis and
            `search.space` lists none, so that one plan is all there would be to look at, whatever the limits.
        explain: Say why the best plan is the best; None: in spaces of moderate size, if `full`.
        more: `stable` and `time_limit_s` of `windtunnel.planner.plan_training.plan`.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan keeps to the limits; the nearest miss of each is named.
    """
    from windtunnel.planner.rank_devices import asks_for_any_device, rank_devices

    settings = tuple(overrides)
    if asks_for_any_device(source, settings):
        return rank_devices(
            source,
            overrides=settings,
            report=lambda name, done, of: listener.say(f"{done} of {of} devices; now {name}"),
            time_limit_s=more.get("time_limit_s"),
        )
    from windtunnel.catalog.load import load
    from windtunnel.planner.plan_training import plan

    scenario, lines, folder = load(source, settings)
    if scenario.search is not None and scenario.search.target == "serving":
        from windtunnel.planner.serving.plan_deployment import plan_serving

        limit = more.get("time_limit_s")
        return plan_serving(scenario, lines, folder, report=listener.searching, time_limit_s=limit)
    asked: dict[str, Any] = {
        "overrides": settings,
        "explain": None if explain is None and full else bool(explain),
        "report": listener.searching,
        **more,
    }
    alone = free is None and sets_every_axis(source, settings)
    try:
        found = plan(source, free=bool(free), **asked)
    except Infeasible as missed:
        if not alone or missed.looked_at != 1:
            raise _with_way_out(missed, scenario, free=bool(free)) from None
    else:
        if not alone or found.proof.candidates != 1:
            return found
    listener.note(ALL_SEARCHED)
    return plan(source, free=True, **asked)


def _with_way_out(missed: Infeasible, scenario: Scenario, *, free: bool) -> Infeasible:
    """The error, with the axes that the plan states, where a search of these too may find more."""
    from windtunnel.planner.space.unpinned_axes import SEARCHED

    stated = [name for name in type(scenario.plan).model_fields if name in scenario.plan.model_fields_set & SEARCHED]
    if free or not stated or missed.looked_at is None:
        return missed
    hint = f"the plan states {', '.join(stated)}: --free searches these too"
    return Infeasible(f"{missed.message}; {hint}", missed.nearest_miss)


def sets_every_axis(source: Source, overrides: Sequence[str] = ()) -> bool:
    """Whether a training scenario has a plan and lists no axis under `search.space`; limits narrow a search alone."""
    from windtunnel.catalog.load import load

    scenario, _, _ = load(source, tuple(overrides))
    listed = scenario.search is not None and scenario.search.space.model_fields_set
    return scenario.training is not None and not listed and "plan" in scenario.model_fields_set


def page_options(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`free` of what a page sends, as `--free`."""
    return {"free": True} if asked.get("free") is True else {}


_VIEWS = {"ServingPlan": "plan_serving", "DeviceRanking": "rank_devices"}
"""Type of a result that is no training plan → its view."""


def _view(result: Any) -> str:
    """Name of the view for a training plan, a deployment or a ranking of devices."""
    return _VIEWS.get(type(result).__name__, "plan")


COMMANDS.add(
    "plan",
    Command(
        id="plan",
        needs=(("training", "serving"),),
        run=run,
        result="windtunnel.planner.result:PlanResult",
        view=_view,
        from_page=page_options,
        figures=("best", "recommended", "proof", "objectives", "evaluated"),
        main="best",
        explained_by=of_step,
        snippet=SNIPPET,
    ),
)
