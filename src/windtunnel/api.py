"""The one entry point: everything that the command line, papers, notebooks and the studio call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.scenarios.source import Source
from windtunnel.versions import current_name

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from windtunnel.advice import Advice
    from windtunnel.clusters.result import ClusterResult, PodResult
    from windtunnel.commands.open_plan import chosen_by_planner, with_recommended_plan
    from windtunnel.commands.plan import sets_every_axis
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
    from windtunnel.questions.records import Answer
    from windtunnel.runs.results import RunResult
    from windtunnel.runs.search import RunSearchResult
    from windtunnel.serving.explanation import ServingExplanation
    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.serving.sweeps.field_sweep import FieldSweep
    from windtunnel.serving.sweeps.load_sweep import SweepResult
    from windtunnel.sweeps.define import Asked
    from windtunnel.sweeps.estimate import Estimate
    from windtunnel.sweeps.execute import Progress as SweepProgress
    from windtunnel.sweeps.start import Sweep, Where
    from windtunnel.training.comparison import Comparison
    from windtunnel.training.explanation import Explanation
    from windtunnel.training.predict import prepare
    from windtunnel.training.results.training_result import TrainingResult
    from windtunnel.training.stage_costs.pricing_cache import PricingCache

__all__ = [
    "FitChange",
    "FitResult",
    "Source",
    "advise",
    "ask",
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
    "chosen_by_planner": "windtunnel.commands.open_plan",
    "prepare": "windtunnel.training.predict",
    "sets_every_axis": "windtunnel.commands.plan",
    "with_recommended_plan": "windtunnel.commands.open_plan",
}
"""Names of other modules that stand here too, imported when first asked for: most commands train nothing."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        if (now := current_name(__name__, name)) != name:
            return globals().get(now) or __getattr__(now)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found


def simulate_training(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    trace: bool = False,
    sensitivities: bool = True,
    coefficient_overrides: dict[str, Any] | None = None,
    run: bool = True,
    chosen_by_planner: Sequence[str] = (),
    cache: PricingCache | None = None,
) -> TrainingResult:
    """Predict one optimizer step, or the mean step of a run whose steps differ.

    Args:
        source: Path of a scenario file, a mapping of its fields, or a `Scenario`. What its plan leaves open is the
            planner's choice.
        overrides: Settings `key=value` as `--set` takes them.
        trace: Whether to keep the simulated step for Perfetto and the report.
        sensitivities: Whether to simulate also with 10 % more of each resource.
        coefficient_overrides: Coefficients that replace those of the catalogue, by name (calibration and fitting).
        run: Whether phases of the run count; otherwise the result is of the steps that no phase claims.
        chosen_by_planner: What a planner has chosen before for this scenario, and what counts as assumed for that:
            `plan`, or axes such as plan.tp; then nothing is searched.
        cache: Prices that several predictions share; the result is the same with and without.

    Raises:
        BadInput: everything wrong with the scenario, at once.

    Example:
        >>> import windtunnel as wt
        >>> r = wt.simulate_training("examples/llama3-70b-64xh100.yaml")  # doctest: +SKIP
    """
    from windtunnel.commands.train import run as train

    return train(
        source,
        overrides,
        full=sensitivities,
        trace=trace,
        cache=cache,
        coefficient_overrides=coefficient_overrides,
        run=run,
        chosen_by_planner=chosen_by_planner,
    )


def fit(source: Source, *, overrides: Sequence[str] = ()) -> FitResult:
    """Does it fit; the largest micro-batch that does; the fewest devices.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.commands.fit import run

    return run(source, overrides)


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
    from windtunnel.commands.cluster import run

    return run(source, overrides)


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
    from windtunnel.commands.base import SILENT, Listener
    from windtunnel.commands.learn import run

    return run(source, overrides, cache=cache, listener=SILENT if report is None else Listener(count=report))


def simulate_programs(
    source: Source, *, overrides: Sequence[str] = (), report: Callable[[int, int], None] | None = None
) -> ReasonResult:
    """Compare strategies of inference: accuracy, dollars, joules and latency of programs of model calls.

    See `windtunnel.programs.simulate.simulate_programs`; `programs.plans: planner` asks the serving planner first.
    """
    from windtunnel.commands.base import SILENT, Listener
    from windtunnel.commands.reason import run

    return run(source, overrides, listener=SILENT if report is None else Listener(count=report))


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
    from windtunnel.commands.run import run

    return run(source, overrides, full=sensitivities, processes=processes)


def search_run(source: Source, *, overrides: Sequence[str] = ()) -> RunSearchResult:
    """The best save interval, spares and checkpoint tiers of a run; see `windtunnel.runs.search.search_run`."""
    from windtunnel.commands.run import search

    return search(source, overrides)


def forecast_run(
    source: Source, log: str | Path, *, overrides: Sequence[str] = (), sensitivities: bool = True
) -> RunResult:
    """When a run under way ends, from its steps and incidents; see `windtunnel.runs.simulate.forecast_run`."""
    from windtunnel.commands.run import run

    return run(source, overrides, full=sensitivities, log=log)


def simulate_serving(source: Source, *, overrides: Sequence[str] = ()) -> ServingResult:
    """Simulate serving request by request; see `windtunnel.serving.simulate.simulate_serving`."""
    from windtunnel.commands.serve import run

    return run(source, overrides)


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
    from windtunnel.commands.base import SILENT, Listener
    from windtunnel.commands.serve_curve import run
    from windtunnel.sweeps.serve_points import points_in

    return run(
        source,
        overrides,
        axis=axis,
        points=points,
        linear=linear,
        listener=SILENT if report is None else Listener(count=lambda runs, _: report(runs)),
        elsewhere=lambda read: points_in(processes, source, read, overrides),
    )


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
    from windtunnel.commands.compare import run

    return run(a, b)


def explain(source: Source, *, against: str | float | Path | None = None, overrides: Sequence[str] = ()) -> Explanation:
    """The chain from data sheet to second behind a prediction, and what could account for a measurement.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        against: a measured step in seconds (`14.6`, `"950ms"`), or the path of a PyTorch profiler trace of one rank.
        overrides: `key=value` settings as `--set` takes them.

    Raises:
        BadInput: everything wrong with the scenario; a trace that cannot be used.
    """
    from windtunnel.commands.explanations import of_step

    return of_step(source, overrides, against=against)


def explain_serving(source: Source, *, overrides: Sequence[str] = ()) -> ServingExplanation:
    """Data-sheet rates and coefficients behind each kind of iteration; see `windtunnel.serving.explanation`."""
    from windtunnel.commands.explanations import of_serving

    return of_serving(source, overrides)


def plan(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    free: bool | None = None,
    explain: bool | None = False,
    stable: bool = False,
    time_limit_s: float | None = None,
    report: Callable[[Progress | ServingProgress], None] | None = None,
) -> PlanResult | ServingPlan | DeviceRanking:
    """The best plan of a scenario's search space that keeps to its limits, with the proof.

    With `search.target: serving` the best deployment, with `cluster.device: any` the best plan of every priced device;
    `free`, `explain` and `stable` are for training.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`; its `search` says what may vary.
        overrides: `key=value` settings as `--set` takes them.
        free: search the axes that the scenario's plan sets as well, and compare with that plan; None: where the plan
            sets every axis and `search.space` lists none.
        explain: also why: the runner-up, the best of every tp and pp, what each limit costs; None: unless
            the space is large.
        stable: also how far each resource of the cluster may change before another layout wins (minutes).
        time_limit_s: seconds after which the best plan so far is the answer; None: large spaces of models to train
            with experts have a limit of their own.
        report: called with a `Progress` as the search goes on.

    Ctrl-C returns the best plan so far once there is one.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan keeps to the limits; the nearest miss of each is named.
    """
    from windtunnel.commands.base import SILENT, Listener
    from windtunnel.commands.plan import run

    return run(
        source,
        overrides,
        full=explain is not False,
        free=free,
        explain=explain,
        stable=stable,
        time_limit_s=time_limit_s,
        listener=SILENT if report is None else Listener(searching=report),
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


def ask(words: str) -> Answer:
    """Answer a question in words, such as `llama3-70b on 64 h100`; see `windtunnel.questions.ask.ask`."""
    from windtunnel.questions.ask import ask as answered

    return answered(words)


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
    from windtunnel.commands.advise import run
    from windtunnel.commands.base import SILENT, Listener

    listener = SILENT if report is None else Listener(count=report)
    return run(source, overrides, objective=objective, pairs=pairs, listener=listener)


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
