"""The one door: everything that the command line, papers, notebooks and the studio call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput
from windtunnel.scenarios.source import Source

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from windtunnel.advice import Advice
    from windtunnel.clusters.result import ClusterResult, PodResult
    from windtunnel.engine.flows import FlowTimes
    from windtunnel.importers.torch_module import TracedGraph
    from windtunnel.learning.link_needs import LinkNeeds
    from windtunnel.learning.results import LearningResult
    from windtunnel.planner.memory_fit import FitChange, FitResult
    from windtunnel.planner.rank_devices import DeviceRanking
    from windtunnel.planner.result import PlanResult, Progress
    from windtunnel.planner.serving.plan_deployment import Progress as ServingProgress
    from windtunnel.planner.serving.plan_deployment import ServingPlan
    from windtunnel.programs.result import ReasonResult
    from windtunnel.report.serving.explain import ServingExplanation
    from windtunnel.runs.results import RunResult
    from windtunnel.runs.search import RunSearchResult
    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.serving.sweeps.field_sweep import FieldSweep
    from windtunnel.serving.sweeps.load_sweep import SweepResult
    from windtunnel.sweeps.define import Asked
    from windtunnel.sweeps.estimate import Estimate
    from windtunnel.sweeps.execute import Progress as SweepProgress
    from windtunnel.sweeps.start import Sweep, Where
    from windtunnel.training.comparison import Comparison
    from windtunnel.training.explanation import Explanation
    from windtunnel.training.predict import prepare, simulate_training

__all__ = [
    "FitChange",
    "FitResult",
    "Source",
    "advise",
    "asks_for_any_device",
    "chosen_by_planner",
    "compare",
    "doctor",
    "estimate_sweep",
    "explain",
    "explain_serving",
    "export_sweep",
    "fit",
    "forecast_run",
    "import_torch_module",
    "link_needs",
    "plan",
    "prepare",
    "query_sweep",
    "rank_devices",
    "resume_sweep",
    "scenario_schema",
    "search_run",
    "sets_every_axis",
    "simulate_cluster",
    "simulate_flows",
    "simulate_learning",
    "simulate_programs",
    "simulate_run",
    "simulate_serving",
    "simulate_training",
    "start_sweep",
    "sweep_serving",
    "sweep_serving_field",
    "sweep_status",
    "validate",
    "with_recommended_plan",
]


_HOME = {
    "FitChange": "windtunnel.planner.memory_fit",
    "FitResult": "windtunnel.planner.memory_fit",
    "prepare": "windtunnel.training.predict",
    "simulate_training": "windtunnel.training.predict",
}
"""Names of other modules that stand here too, imported when first asked for: most verbs train nothing."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def fit(source: Source, *, overrides: Sequence[str] = ()) -> FitResult:
    """Does it fit; the largest micro-batch that does; the fewest devices.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.planner.memory_fit import memory_fit
    from windtunnel.specs.cluster import refuse_groups
    from windtunnel.specs.run_phases import refuse_run
    from windtunnel.techniques import applied
    from windtunnel.training.predict import prepare

    prepared, scenario = prepare(source, overrides=overrides)
    refuse_groups(prepared.cluster, "`fit`")
    refuse_run(prepared.training.run, "`fit`")
    return memory_fit(prepared, scenario.plan, applied(scenario.techniques))


_MOST_PLANS = 10_000
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


class _ManyPlans(Exception):
    """A search was left because its space is large."""


def with_recommended_plan(
    source: Source,
    overrides: Sequence[str] = (),
    *,
    report: Callable[[Progress | ServingProgress], None] | None = None,
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
    scenario, _, _ = load(source, given)
    left = () if scenario.training is None else axes_left_to_planner(source, given)
    if not left:
        return source, given, ""
    from windtunnel.errors import Infeasible
    from windtunnel.planner.result import PlanResult
    from windtunnel.planner.result import Progress as TrainingProgress
    from windtunnel.training.results.one_line import plan_line

    own = scenario.search is not None
    coarse = () if own else tuple(f"search.space.{a}={v}" for a, v in _COARSE if {"plan", f"plan.{a}"} & {*left})
    among = ""

    def few(progress: Progress | ServingProgress) -> None:
        early = isinstance(progress, TrainingProgress) and not progress.screened
        if coarse and early and progress.candidates > _MOST_PLANS:  # type: ignore[union-attr]
            raise _ManyPlans
        if report is not None:
            report(progress)

    try:
        try:
            found = plan(source, overrides=given, report=few)
        except _ManyPlans:
            found, among = plan(source, overrides=(*given, *coarse), report=report), ", among axes of powers of two"
    except Infeasible as error:
        return source, given, f"plan: none was given and none fits ({error.message}); the defaults are predicted"
    except BadInput as error:
        return source, given, f"plan: none was given and none was searched ({error.problems[0].rule})"
    assert isinstance(found, PlanResult)
    taken = found.choice.scenario if found.choice is not None else found.scenario
    line = plan_line(found.best.plan if found.choice is None else found.choice.plan)
    return taken, (), f"plan: left to the planner, which recommends {line}{among}"


def chosen_by_planner(source: Source, overrides: Sequence[str], taken: Source) -> tuple[str, ...]:
    """What the planner chose where `with_recommended_plan` took its plan: `plan`, or axes such as plan.tp.

    `simulate_training` takes it as `chosen_by_planner`, so that the band knows that the mapping was assumed.

    Args:
        source: The scenario as it was written.
        overrides: `key=value` settings as `--set` takes them.
        taken: The scenario that `with_recommended_plan` returned.
    """
    from windtunnel.scenarios.open_plan import axes_left_to_planner

    return () if taken is source else axes_left_to_planner(source, overrides)


def sets_every_axis(source: Source, overrides: Sequence[str] = ()) -> bool:
    """Whether a training scenario has a plan and no `search` section, so that one candidate is all there is."""
    from windtunnel.catalog.load import load

    scenario, _, _ = load(source, tuple(overrides))
    return scenario.training is not None and scenario.search is None and "plan" in scenario.model_fields_set


def simulate_flows(
    routes: npt.ArrayLike,
    capacity: npt.ArrayLike,
    nbytes: npt.ArrayLike,
    *,
    start_s: npt.ArrayLike = 0.0,
    weight: npt.ArrayLike = 1.0,
    tolerance: float = 0.0,
) -> FlowTimes:
    """Simulate flows of any sizes and starts on explicit links; see `windtunnel.engine.flows.simulate_flows`."""
    from windtunnel.engine.flows import simulate_flows as simulate

    return simulate(routes, capacity, nbytes, start_s=start_s, weight=weight, tolerance=tolerance)


def import_torch_module(
    module: Any, example_inputs: Sequence[Any] = (), example_kwargs: Mapping[str, Any] | None = None
) -> TracedGraph:
    """The operators of one forward call of a `torch.nn.Module`, which runs without data or weights.

    Args:
        module: a `torch.nn.Module`; a module on the meta device works as well.
        example_inputs: positional arguments of the call; tensors give sizes and types, their data is not read.
        example_kwargs: keyword arguments of the call.

    Raises:
        BadInput: PyTorch is not installed, or the module cannot run on tensors without data.
    """
    from windtunnel.importers.torch_module import trace_module

    return trace_module(module, example_inputs, example_kwargs)


def simulate_cluster(source: Source, *, overrides: Sequence[str] = ()) -> ClusterResult | PodResult:
    """Simulate jobs that share a cluster; see `windtunnel.clusters.simulate.simulate_cluster`."""
    from windtunnel.clusters.simulate import simulate_cluster as simulate

    return simulate(source, overrides=tuple(overrides))


def simulate_learning(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    cache: bool = True,
    report: Callable[[int, int], None] | None = None,
) -> LearningResult:
    """Train a small task with several algorithms on the clock of a large target.

    See `windtunnel.learning.simulate.simulate_learning`.
    """
    from windtunnel.learning.simulate import simulate_learning as simulate

    return simulate(source, overrides=overrides, cache=cache, report=report)


def simulate_programs(
    source: Source, *, overrides: Sequence[str] = (), report: Callable[[int, int], None] | None = None
) -> ReasonResult:
    """Compare strategies of inference: accuracy, dollars, joules and latency of programs of model calls.

    See `windtunnel.programs.simulate.simulate_programs`; `programs.plans: planner` asks the serving planner first.
    """
    from windtunnel.programs.simulate import simulate_programs as simulate
    from windtunnel.scenarios.load import load

    asked = load(source, overrides)[0].programs
    if asked is not None and asked.plans_by == "planner":
        from windtunnel.planner.plans_of_programs import on_planned

        return on_planned(source, overrides=overrides, report=report)
    return simulate(source, overrides=overrides, report=report)


def link_needs(source: Source, shares: Sequence[float], *, overrides: Sequence[str] = ()) -> LinkNeeds:
    """Least bandwidth with which workers of each algorithm compute for shares of their time; nothing is learned.

    See `windtunnel.learning.link_needs.link_needs`.
    """
    from windtunnel.learning.link_needs import link_needs as needs

    return needs(source, shares, overrides=overrides)


def simulate_run(
    source: Source, *, overrides: Sequence[str] = (), sensitivities: bool = True, processes: int = 1
) -> RunResult:
    """Predict a whole training run, through failures; see `windtunnel.runs.simulate.simulate_run`."""
    from windtunnel.runs.simulate import simulate_run as simulate

    return simulate(source, overrides=overrides, sensitivities=sensitivities, processes=processes)


def search_run(source: Source, *, overrides: Sequence[str] = ()) -> RunSearchResult:
    """The best save interval, spares and checkpoint tiers of a run; see `windtunnel.runs.search.search_run`."""
    from windtunnel.runs.search import search_run as search

    return search(source, overrides=overrides)


def forecast_run(
    source: Source, log: str | Path, *, overrides: Sequence[str] = (), sensitivities: bool = True
) -> RunResult:
    """When a run under way ends, from its steps and incidents; see `windtunnel.runs.simulate.forecast_run`."""
    from windtunnel.runs.simulate import forecast_run as forecast

    return forecast(source, Path(log), overrides=overrides, sensitivities=sensitivities)


def simulate_serving(source: Source, *, overrides: Sequence[str] = ()) -> ServingResult:
    """Simulate serving request by request; see `windtunnel.serving.simulate.simulate_serving`."""
    from windtunnel.serving.simulate import simulate_serving as simulate

    return simulate(source, overrides=overrides)


def sweep_serving(
    source: Source,
    axis: str,
    *,
    points: int | None = None,
    linear: bool = False,
    overrides: Sequence[str] = (),
    report: Callable[[int], None] | None = None,
    processes: int = 1,
) -> SweepResult:
    """A serving scenario under many loads: the latency–throughput curve, its knee, where saturation begins.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        axis: `rate=0.5..8`, `concurrency=1,8,64`, `time_scale=0.5..4` (traces).
        points: loads of a range, its ends included; absent: 9.
        linear: evenly spaced loads; else by equal factors.
        overrides: `key=value` settings as `--set` takes them.
        report: called with the number of runs as they are made.
        processes: processes that run the points of the axis; results are the same.

    Raises:
        BadInput: everything wrong with the scenario, or an axis that its traffic does not have.
        Infeasible: the model does not fit.
    """
    from windtunnel.serving.sweeps.load_sweep import read_axis, sweep
    from windtunnel.sweeps.serve_points import points_in

    read = read_axis(axis, points, linear=linear)
    elsewhere = points_in(processes, source, read, overrides)
    return sweep(source, read, overrides=overrides, report=report, elsewhere=elsewhere)


def sweep_serving_field(
    source: Source,
    axis: str,
    *,
    points: int | None = None,
    linear: bool = False,
    overrides: Sequence[str] = (),
    report: Callable[[int], None] | None = None,
    processes: int = 1,
) -> FieldSweep:
    """A serving scenario under several values of any of its fields.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        axis: `serving.precision.weights=bf16,fp8`, `serving.pools.0.limits.max_num_seqs=16..256`.
        points: values of a range, its ends included; absent: 9.
        linear: evenly spaced values of a range; else by equal factors.
        overrides: `key=value` settings as `--set` takes them.
        report: called with the number of runs as they are made.
        processes: processes that run the points of the axis; results are the same.

    Raises:
        BadInput: everything wrong with the scenario, where no value is right.
    """
    from windtunnel.serving.sweeps.field_sweep import read_field, sweep_field
    from windtunnel.sweeps.serve_points import points_in

    read = read_field(axis, points, linear=linear)
    elsewhere = points_in(processes, source, read, overrides)
    return sweep_field(source, read, overrides=overrides, report=report, elsewhere=elsewhere)


def start_sweep(
    asked: Asked,
    out: str | Path | None = None,
    where: Where | None = None,
    *,
    extend: bool = False,
    report: Callable[[SweepProgress], None] = lambda _: None,
) -> Sweep:
    """Compute a sweep, or what a folder of it lacks; see `windtunnel.sweeps.start.start`."""
    from windtunnel.sweeps.start import start

    return start(asked, out, where, extend=extend, report=report)


def resume_sweep(
    folder: str | Path,
    where: Where | None = None,
    *,
    retry: bool = False,
    report: Callable[[SweepProgress], None] = lambda _: None,
) -> Sweep:
    """Compute the cells that a sweep's folder lacks; see `windtunnel.sweeps.start.resume`."""
    from windtunnel.sweeps.start import resume

    return resume(folder, where, retry=retry, report=report)


def estimate_sweep(asked: Asked) -> Estimate:
    """What a sweep would take; see `windtunnel.sweeps.estimate.estimate`."""
    from windtunnel.sweeps.start import forecast

    return forecast(asked)


def sweep_status(folder: str | Path) -> dict[str, Any]:
    """How far a sweep is, and why cells have no answer.

    Raises:
        BadInput: the folder is no sweep.
    """
    from windtunnel.sweeps.start import summary

    return summary(Path(folder))


def query_sweep(folder: str | Path, sql: str, *, unlocked: bool = False) -> pd.DataFrame:
    """Rows of an SQL query over a sweep; see `windtunnel.sweeps.views.query`."""
    from windtunnel.sweeps.views import query

    return query(Path(folder), sql, unlocked=unlocked)


def export_sweep(folder: str | Path, target: str | Path, view: str = "cells") -> int:
    """Write a view of a sweep as CSV, Parquet or JSON; the number of its rows.

    Raises:
        BadInput: an unknown view or kind of file.
    """
    from windtunnel.sweeps.views import export

    return export(Path(folder), Path(target), view)


def compare(a: Source, b: Source) -> Comparison:
    """Where the difference between two scenarios comes from."""
    from windtunnel.training.comparison import difference
    from windtunnel.training.predict import simulate_training

    return difference(simulate_training(a), simulate_training(b))


def explain(source: Source, *, against: str | float | Path | None = None, overrides: Sequence[str] = ()) -> Explanation:
    """The chain from data sheet to second behind a prediction, and what could account for a measurement.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        against: a measured step in seconds (`14.6`, `"950ms"`), or the path of a PyTorch profiler trace of one rank.
        overrides: `key=value` settings as `--set` takes them.

    Raises:
        BadInput: everything wrong with the scenario; a trace that cannot be used.
    """
    from windtunnel.training.explanation import explain_source

    taken, settings, _ = with_recommended_plan(source, overrides)
    chosen = chosen_by_planner(source, overrides, taken)
    return explain_source(taken, against=against, overrides=settings, chosen_by_planner=chosen)


def explain_serving(source: Source, *, overrides: Sequence[str] = ()) -> ServingExplanation:
    """Data-sheet rates and coefficients behind each kind of iteration; see `windtunnel.report.serving.explain`."""
    from windtunnel.report.serving.explain import explain_serving as explained

    return explained(source, overrides=overrides)


def plan(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    free: bool = False,
    explain: bool | None = False,
    stable: bool = False,
    time_limit_s: float | None = None,
    report: Callable[[Progress | ServingProgress], None] | None = None,
) -> PlanResult | ServingPlan:
    """The best plan of a scenario's search space that keeps to its limits, with the proof.

    With `search.target: serving` the best deployment; `free`, `explain` and `stable` are for training.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`; its `search` says what may vary.
        overrides: `key=value` settings as `--set` takes them.
        free: search the axes that the scenario's plan sets as well, and compare with that plan.
        explain: also why: the runner-up, the best of every tp and pp, what each limit costs; None: unless
            the space is large.
        stable: also how far each resource of the cluster may change before another layout wins (minutes).
        time_limit_s: training: seconds after which the best plan so far is the answer; None: large spaces of models
            with experts have a limit of their own.
        report: called with a `Progress` as the search goes on.

    Ctrl-C returns the best plan so far once there is one.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan keeps to the limits; the nearest miss of each is named.
    """
    from windtunnel.catalog.load import load
    from windtunnel.planner.plan_training import plan as run

    scenario, lines, folder = load(source, tuple(overrides))
    if scenario.search is not None and scenario.search.target == "serving":
        from windtunnel.planner.serving.plan_deployment import plan_serving

        return plan_serving(scenario, lines, folder, report=report)
    return run(
        source,
        overrides=tuple(overrides),
        free=free,
        explain=explain,
        stable=stable,
        time_limit_s=time_limit_s,
        report=report,
    )


def asks_for_any_device(source: Source, *, overrides: Sequence[str] = ()) -> bool:
    """Tell whether a scenario leaves the device to the planner: `cluster: {device: any}`."""
    from windtunnel.planner.rank_devices import asks_for_any_device as asks

    return asks(source, tuple(overrides))


def rank_devices(
    source: Source, *, overrides: Sequence[str] = (), report: Callable[[str, int, int], None] | None = None
) -> DeviceRanking:
    """The best plan on every priced device of the catalogue, the cheapest per token first.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`; its `cluster.device` is `any`.
        overrides: `key=value` settings as `--set` takes them.
        report: called with the device that is searched, the number of devices before it, and the number of all.

    Raises:
        BadInput: everything wrong with the scenario that is wrong on every device.
        Infeasible: no priced device has a plan.
    """
    from windtunnel.planner.rank_devices import rank_devices as rank

    return rank(source, overrides=tuple(overrides), report=report)


def advise(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    objective: str | None = None,
    pairs: bool = True,
    report: Callable[[int, int], None] | None = None,
) -> Advice:
    """Which published techniques would help a scenario, by how much, why and at what cost.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`; trained, or served where it has a
            `serving` section alone.
        overrides: `key=value` settings as `--set` takes them.
        objective: time, memory, energy, money; of serving throughput, goodput, ttft, tpot, e2e, energy, money.
        pairs: also try promising ones two by two.
        report: called with changes tried and to try.

    Raises:
        BadInput: everything wrong with the scenario.
    """
    from windtunnel.advice import advise as run

    return run(source, overrides=overrides, objective=objective, pairs=pairs, report=report)


def validate(
    rows: str | Path | list[dict[str, Any]] | None = None,
    *,
    families: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Predict measured rows. Absent rows mean the ones we ship."""
    from windtunnel.validation.predict.validate import validate as run

    report: dict[str, Any] = run(rows, families=tuple(families), progress=progress).to_dict()
    return report


def scenario_schema(*, names: bool = False) -> dict[str, Any]:
    """JSON Schema of scenario files.

    Args:
        names: offer the catalogue's models, devices, clusters and techniques where a name is expected; other names
            stay valid.
    """
    from windtunnel.specs import schema

    if not names:
        return schema.scenario_schema()
    from windtunnel import catalog
    from windtunnel.techniques import REGISTRY

    return schema.with_names(
        schema.scenario_schema(),
        models=catalog.models(),
        devices=catalog.devices(),
        clusters=catalog.clusters(),
        techniques=REGISTRY.list(),
    )


def doctor(*, warm: bool = False, needed: Sequence[str] = (), extras: Sequence[str] = ()) -> dict[str, Any]:
    """What this installation has and whether it works; see `windtunnel.installation.examine`."""
    from windtunnel.installation import examine

    return examine(warm=warm, needed=needed, extras=extras)
