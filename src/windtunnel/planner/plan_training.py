"""From a scenario with a search to its best plan, on one kind of device or on a heterogeneous cluster."""

from __future__ import annotations

import time

from windtunnel.catalog.load import load
from windtunnel.importers.model import resolve_model
from windtunnel.planner.plan_one_cluster import plan_one_cluster
from windtunnel.planner.request import PlanRequest
from windtunnel.planner.result import PlanResult, ReportProgress
from windtunnel.scenarios.source import Source
from windtunnel.specs.cluster import MixedClusterRef
from windtunnel.specs.scenario import ModelFile


def plan(
    source: Source,
    *,
    overrides: tuple[str, ...] = (),
    free: bool = False,
    explain: bool | None = False,
    stable: bool = False,
    time_limit_s: float | None = None,
    report: ReportProgress | None = None,
) -> PlanResult:
    """The best plan of a scenario's search space that keeps to the limits, with the proof.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.
        free: search the axes that the scenario's plan sets as well, and simulate that plan to compare with.
        explain: also why: the runner-up, the best of every tp and pp, what each limit costs. None: in spaces of at
            most `EXPLAINED` plans.
        stable: also how far each resource of the cluster may change before another layout wins.
        time_limit_s: seconds after which the best plan so far is the answer; None: where the space is large, the
            planner's own limit.
        report: called as the search goes on.

    Ctrl-C returns the best plan so far once there is one.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan keeps to the limits; the nearest miss of each is named.
        Stopped: Ctrl-C before any plan was found.
    """
    begun = time.perf_counter()
    scenario, lines, folder = load(source, overrides)
    if isinstance(scenario.model, ModelFile):  # what is found stands without the file
        scenario = scenario.model_copy(update={"model": resolve_model(scenario, folder)})
    request = PlanRequest(
        scenario=scenario,
        lines=lines,
        folder=folder,
        begun=begun,
        free=free,
        explain=explain,
        stable=stable,
        time_limit_s=time_limit_s,
        report=report,
    )
    if isinstance(scenario.cluster, MixedClusterRef):
        from windtunnel.planner.heterogeneous.plan_groups import plan_heterogeneous

        return plan_heterogeneous(request)
    return plan_one_cluster(request)
