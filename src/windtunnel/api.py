"""The one door: everything that the command line, papers, notebooks and the studio call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput
from windtunnel.specs.source import Source
from windtunnel.training.predict import prepare, simulate_training

if TYPE_CHECKING:
    import numpy.typing as npt

    from windtunnel.advice import Advice
    from windtunnel.engine.flows import FlowTimes
    from windtunnel.importers.torch_module import TracedGraph
    from windtunnel.planner.result import PlanResult, Progress
    from windtunnel.planner.serving.plan import Progress as ServingProgress
    from windtunnel.planner.serving.plan import ServingPlan
    from windtunnel.report.training.compare import Comparison
    from windtunnel.report.training.explain import Explanation
    from windtunnel.serving.results.serving_result import ServingResult
    from windtunnel.serving.sweeps.field_sweep import FieldSweep
    from windtunnel.serving.sweeps.load_sweep import SweepResult
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.plan import PlanSpec

__all__ = [
    "FitChange",
    "FitResult",
    "Source",
    "advise",
    "compare",
    "doctor",
    "explain",
    "fit",
    "import_torch_module",
    "plan",
    "prepare",
    "scenario_schema",
    "sets_every_axis",
    "simulate_flows",
    "simulate_serving",
    "simulate_training",
    "sweep_serving",
    "sweep_serving_field",
    "validate",
    "with_recommended_plan",
]


@dataclass(frozen=True, slots=True)
class FitChange:
    """A setting that makes a plan fit."""

    settings: tuple[str, ...]
    """`path=value`, as `--set` takes them."""
    devices: int
    """The scenario's own number where it suffices, else the smallest larger number by whole replicas."""


_FIT_CHANGES: tuple[dict[str, Any], ...] = (
    {"recompute": {"policy": "selective"}},
    {"recompute": {"policy": "full"}},
    {"zero": 3},
    {"zero": 3, "recompute": {"policy": "full"}},
    {"offload": {"optimizer": 1.0}},
    {"zero": 3, "recompute": {"policy": "full"}, "offload": {"optimizer": 1.0}},
)
"""Changes of a plan that `fit` tries, the mildest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """Whether a plan fits, and the nearest ones that do. Bytes and counts."""

    fits: bool
    reserved_bytes: float
    capacity_bytes: float
    over_bytes: float
    stage: int
    at_peak: dict[str, float]
    largest_mbs: int | None
    """Largest micro-batch that fits at this global batch, None when none does."""
    fewest_devices: int | None
    """Smallest number of devices on which the plan's tp, pp and cp fit, by whole data-parallel replicas."""
    fit_probability: float | None = None
    """How likely the reserved peak stays within the device's memory, from residuals of measured peaks."""
    host_bytes: float = 0.0
    """What one device keeps in host memory by offloading."""
    changes: tuple[FitChange, ...] = ()
    """Settings with which the plan fits, and on how many devices; empty where it fits as written."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def fit(source: Source, *, overrides: Sequence[str] = ()) -> FitResult:
    """Does it fit; the largest micro-batch that does; the fewest devices.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.specs.cluster import refuse_groups
    from windtunnel.specs.run import refuse_run
    from windtunnel.techniques import applied
    from windtunnel.training.prepare import prepare as prepare_step
    from windtunnel.training.simulate import memory_of

    prepared, scenario = prepare(source, overrides=overrides)
    refuse_groups(prepared.cluster, "`fit`")
    refuse_run(prepared.training.run, "`fit`")
    memory = memory_of(prepared)
    training, plan = prepared.training, scenario.plan
    chosen = applied(scenario.techniques)

    def fits(cluster: ClusterSpec, mbs: int, batch: int, plan: PlanSpec = plan) -> bool:
        try:
            other = prepare_step(
                prepared.model,
                cluster,
                training.model_copy(update={"global_batch": batch}),
                plan.model_copy(update={"mbs": mbs, "dp": "auto", "shard_group": None}),
                chosen,
            )
        except BadInput:
            return False
        return memory_of(other).fits

    replicas = training.global_batch // prepared.plan.dp
    sizes = [b for b in range(1, min(replicas, 256) + 1) if replicas % b == 0]
    largest = _last_true(sizes, lambda b: fits(prepared.cluster, b, training.global_batch))
    inner = prepared.plan.tp * prepared.plan.pp * prepared.plan.cp
    per_node = prepared.cluster.devices_per_node
    counts: list[int] = []
    size = inner
    while size <= max(prepared.cluster.num_devices, inner) * 64:
        counts.append(size)
        size *= 2

    def on(count: int, plan: PlanSpec = plan) -> bool:
        cluster = prepared.cluster.model_copy(
            update={"nodes": max(1, count // per_node), "devices_per_node": min(per_node, count)}
        )
        dp = count // inner
        return count % min(per_node, count) == 0 and fits(cluster, plan.mbs, dp * plan.mbs * prepared.plan.m, plan)

    fewest = next((count for count in counts if on(count)), None)
    changes: list[FitChange] = []
    for change in () if memory.fits else _FIT_CHANGES:
        other = type(plan).model_validate(plan.model_dump(exclude_unset=True) | change)
        settings = tuple(
            f"plan.{k}.{name}={value:g}" if isinstance(value, float) else f"plan.{k}={value}"
            for k, v in change.items()
            for name, value in (v.items() if isinstance(v, dict) else [("", v)])
        )
        if fits(prepared.cluster, plan.mbs, training.global_batch, other):
            changes.append(FitChange(settings, prepared.cluster.num_devices))
            break
        enough = (count for count in counts if count > prepared.cluster.num_devices and on(count, other))
        if (count := next(enough, None)) is not None and all(count < one.devices for one in changes):
            changes.append(FitChange(settings, count))
    return FitResult(
        fits=memory.fits,
        reserved_bytes=memory.peak_reserved_bytes,
        capacity_bytes=memory.capacity_bytes,
        over_bytes=max(memory.peak_reserved_bytes - memory.capacity_bytes, 0.0),
        stage=memory.stage,
        at_peak=memory.at_peak,
        largest_mbs=largest,
        fewest_devices=fewest,
        fit_probability=memory.fit_probability,
        host_bytes=memory.host_bytes,
        changes=tuple(changes),
    )


def with_recommended_plan(source: Source, overrides: Sequence[str] = ()) -> tuple[Source, tuple[str, ...], str]:
    """The scenario with the planner's recommendation for axes that it leaves to the planner.

    Axes are left to the planner where a training scenario has no `plan`, or says `auto` for one of them; axes with
    numbers stay.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.

    Returns:
        The scenario to predict, the settings that still apply, and a sentence that says what was taken; the empty
        sentence where nothing was left open.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.catalog.load import load
    from windtunnel.errors import Infeasible
    from windtunnel.planner.result import PlanResult
    from windtunnel.report.training.one_line import plan_line
    from windtunnel.specs.loader import left_to_planner

    given = tuple(overrides)
    scenario, _, _ = load(source, given)
    if scenario.training is None or not left_to_planner(source, given):
        return source, given, ""
    try:
        found = plan(source, overrides=given)
    except Infeasible as error:
        return source, given, f"plan: none was given and none fits ({error.message}); the defaults are predicted"
    except BadInput as error:
        return source, given, f"plan: none was given and none was searched ({error.problems[0].rule})"
    assert isinstance(found, PlanResult)
    taken = found.choice.scenario if found.choice is not None else found.scenario
    line = plan_line(found.best.plan if found.choice is None else found.choice.plan)
    return taken, (), f"plan: left to the planner, which recommends {line}"


def sets_every_axis(source: Source, overrides: Sequence[str] = ()) -> bool:
    """Whether a training scenario has a plan and no `search` section, so that one candidate is all there is."""
    from windtunnel.catalog.load import load

    scenario, _, _ = load(source, tuple(overrides))
    return scenario.training is not None and scenario.search is None and "plan" in scenario.model_fields_set


def _last_true(values: list[int], test: Callable[[int], bool]) -> int | None:
    """Largest value that passes a monotone test, by bisection."""
    low, high, best = 0, len(values) - 1, None
    while low <= high:
        middle = (low + high) // 2
        if test(values[middle]):
            best, low = values[middle], middle + 1
        else:
            high = middle - 1
    return best


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
) -> SweepResult:
    """A serving scenario under many loads: the latency–throughput curve, its knee, where saturation begins.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        axis: `rate=0.5..8`, `concurrency=1,8,64`, `time_scale=0.5..4` (traces).
        points: loads of a range, its ends included; absent: 9.
        linear: evenly spaced loads; else by equal factors.
        overrides: `key=value` settings as `--set` takes them.
        report: called with the number of runs as they are made.

    Raises:
        BadInput: everything wrong with the scenario, or an axis that its traffic does not have.
        Infeasible: the model does not fit.
    """
    from windtunnel.serving.sweeps.load_sweep import read_axis, sweep

    return sweep(source, read_axis(axis, points, linear=linear), overrides=overrides, report=report)


def sweep_serving_field(
    source: Source,
    axis: str,
    *,
    points: int | None = None,
    linear: bool = False,
    overrides: Sequence[str] = (),
    report: Callable[[int], None] | None = None,
) -> FieldSweep:
    """A serving scenario under several values of any of its fields.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        axis: `serving.precision.weights=bf16,fp8`, `serving.pools.0.limits.max_num_seqs=16..256`.
        points: values of a range, its ends included; absent: 9.
        linear: evenly spaced values of a range; else by equal factors.
        overrides: `key=value` settings as `--set` takes them.
        report: called with the number of runs as they are made.

    Raises:
        BadInput: everything wrong with the scenario, where no value is right.
    """
    from windtunnel.serving.sweeps.field_sweep import read_field, sweep_field

    return sweep_field(source, read_field(axis, points, linear=linear), overrides=overrides, report=report)


def compare(a: Source, b: Source) -> Comparison:
    """Where the difference between two scenarios comes from."""
    from windtunnel.report.training.compare import difference

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
    from windtunnel.report.training.explain import explain_source

    return explain_source(source, against=against, overrides=overrides)


def plan(
    source: Source,
    *,
    overrides: Sequence[str] = (),
    free: bool = False,
    explain: bool | None = False,
    stable: bool = False,
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
        report: called with a `Progress` as the search goes on.

    Ctrl-C returns the best plan so far once there is one.

    Raises:
        BadInput: everything wrong with the scenario, at once.
        Infeasible: no plan keeps to the limits; the nearest miss of each is named.
    """
    from windtunnel.catalog.load import load
    from windtunnel.planner.plan import plan as run

    scenario, lines, folder = load(source, tuple(overrides))
    if scenario.search is not None and scenario.search.target == "serving":
        from windtunnel.planner.serving.plan import plan_serving

        return plan_serving(scenario, lines, folder, report=report)
    return run(source, overrides=tuple(overrides), free=free, explain=explain, stable=stable, report=report)


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
