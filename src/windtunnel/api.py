"""The one door: everything that the command line, papers, notebooks and the studio call."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windtunnel.errors import BadInput, Problem, ProblemList
from windtunnel.specs.scenario import ModelFile, Scenario

if TYPE_CHECKING:
    from windtunnel.report.compare import Comparison
    from windtunnel.specs.cluster import ClusterSpec
    from windtunnel.specs.model import ModelSpec
    from windtunnel.training.results import TrainingResult
    from windtunnel.training.simulate import Prepared

Source = str | Path | dict[str, Any] | Scenario


def load(source: Source, overrides: Sequence[str] = ()) -> tuple[Scenario, Any, Path]:
    """A scenario from a file, a mapping or itself; with its source map and the folder that paths are relative to."""
    if isinstance(source, Scenario):
        if overrides:
            from windtunnel.specs.loader import load_scenario

            return load_scenario(source.model_dump(mode="json", exclude_unset=True), list(overrides)), None, Path()
        return source, None, Path()
    from windtunnel.specs.loader import load_scenario_with_source

    scenario, lines = load_scenario_with_source(source, list(overrides))
    folder = Path(source).parent if isinstance(source, (str, Path)) else Path()
    return scenario, lines, folder


def resolve_model(scenario: Scenario, folder: Path) -> ModelSpec:
    """The architecture a scenario names, imports or spells out."""
    from windtunnel import catalog
    from windtunnel.specs.model import ModelSpec

    model = scenario.model
    if isinstance(model, ModelSpec):
        return model
    if isinstance(model, ModelFile):
        from windtunnel.importers.hf_config import from_hf_config

        spec = from_hf_config(folder / model.config)
        if model.num_hidden_layers:
            spec = spec.model_copy(update={"num_hidden_layers": model.num_hidden_layers})
        return spec
    return catalog.model(model)


def prepare(
    source: Source, *, overrides: Sequence[str] = (), coefficient_overrides: dict[str, Any] | None = None
) -> tuple[Prepared, Scenario]:
    """Resolve a scenario into a step program. All problems of all parts are reported at once.

    Raises:
        BadInput: with every problem.
    """
    from windtunnel import catalog
    from windtunnel.techniques import applied
    from windtunnel.training.simulate import prepare as prepare_step

    scenario, lines, folder = load(source, overrides)
    problems = ProblemList(lines)
    model: ModelSpec | None = None
    cluster: ClusterSpec | None = None

    def attempt(field: str, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except BadInput as error:
            for problem in error.problems:
                known = problem if problem.field.startswith(field) else replace(problem, field=field)
                problems.add(known.field, known.value, known.rule, nearest=known.nearest)
            return None

    model = attempt("model", lambda: resolve_model(scenario, folder))
    cluster = attempt("cluster", lambda: catalog.resolve_cluster(scenario.cluster))
    if scenario.training is None:
        problems.extend([Problem(field="training", rule="is required for `train`: seq_len and global_batch at least")])
    chosen = applied(scenario.techniques, problems)
    if model is None or cluster is None or scenario.training is None:
        problems.raise_if_any()
        raise AssertionError("unreachable")
    prepared = prepare_step(
        model, cluster, scenario.training, scenario.plan, chosen, problems, coefficient_overrides=coefficient_overrides
    )
    return prepared, scenario


def simulate_training(
    source: Source, *, overrides: Sequence[str] = (), trace: bool = False, sensitivities: bool = True,
    coefficient_overrides: dict[str, Any] | None = None,
) -> TrainingResult:  # fmt: skip
    """Predict one optimizer step.

    Args:
        source: path of a scenario file, a mapping of its fields, or a `Scenario`.
        overrides: `key=value` settings as `--set` takes them.
        trace: keep the simulated step for Perfetto and the report.
        sensitivities: also simulate with 10 % more of each resource.
        coefficient_overrides: coefficients to replace (calibration and fitting).

    Raises:
        BadInput: everything wrong with the scenario, at once.

    Example:
        >>> import windtunnel as wt
        >>> r = wt.simulate_training("examples/llama3-70b-64xh100.yaml")  # doctest: +SKIP
    """
    from windtunnel import __version__
    from windtunnel.techniques import applied
    from windtunnel.training.results import Assumption
    from windtunnel.training.simulate import simulate_step

    begun = time.perf_counter()
    prepared, scenario = prepare(source, overrides=overrides, coefficient_overrides=coefficient_overrides)
    assumed = tuple(Assumption(*item) for item in prepared.cluster.assumed)
    result = simulate_step(prepared, name=scenario.name or prepared.model.name, assumed=assumed, trace=trace)
    gains = _sensitivities(scenario, source, prepared, result.step_time_s) if sensitivities else {}
    plain = scenario.model_dump(mode="json", exclude_unset=True)
    used = [f"{t.technique.paper.title} ({t.technique.paper.year}) {t.technique.paper.link}" for t in applied(scenario.techniques)]
    digest = hashlib.sha256(json.dumps([plain, __version__], sort_keys=True).encode()).hexdigest()[:16]
    return replace(
        result, sensitivities=gains, scenario=plain, input_hash=digest, version=__version__, citations=tuple(used),
        simulated_in_s=time.perf_counter() - begun,
    )  # fmt: skip


def _sensitivities(scenario: Scenario, source: Source, prepared: Prepared, base_s: float) -> dict[str, float]:
    """Relative change of the step when one resource is 10 % larger."""
    from windtunnel.techniques import applied
    from windtunnel.training.simulate import prepare as prepare_step
    from windtunnel.training.simulate import step_time

    cluster = prepared.cluster
    device = cluster.device
    more = {
        "matrix throughput": {"device": device.model_copy(update={"peak_flop_per_s": {k: v * 1.1 for k, v in device.peak_flop_per_s.items()}})},
        "memory bandwidth": {"device": device.model_copy(update={"memory_bytes_per_s": device.memory_bytes_per_s * 1.1})},
        "scale-up bandwidth": {"scale_up": cluster.scale_up.model_copy(update={"bytes_per_s": cluster.scale_up.bytes_per_s * 1.1})},
        "scale-out bandwidth": {
            "scale_out": cluster.scale_out.model_copy(update={"nic_bytes_per_s": cluster.scale_out.nic_bytes_per_s * 1.1})
        },
    }  # fmt: skip
    out = {}
    assert scenario.training is not None
    chosen = applied(scenario.techniques)
    for name, update in more.items():
        other = prepare_step(prepared.model, cluster.model_copy(update=update), scenario.training, scenario.plan, chosen)
        out[name] = step_time(other) / base_s - 1.0
    faster = {"host_kernel_s": prepared.coefficients.host_kernel_s / 1.1, "moe_sync_s": prepared.coefficients.moe_sync_s / 1.1}
    other = prepare_step(prepared.model, cluster, scenario.training, scenario.plan, chosen, coefficient_overrides=faster)
    out["host speed"] = step_time(other) / base_s - 1.0
    return out


@dataclass(frozen=True, slots=True)
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

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def fit(source: Source, *, overrides: Sequence[str] = ()) -> FitResult:
    """Does it fit; the largest micro-batch that does; the fewest devices.

    Raises:
        BadInput: everything wrong with the scenario, at once.
    """
    from windtunnel.techniques import applied
    from windtunnel.training.simulate import memory_of
    from windtunnel.training.simulate import prepare as prepare_step

    prepared, scenario = prepare(source, overrides=overrides)
    memory = memory_of(prepared)
    training, plan = scenario.training, scenario.plan
    assert training is not None
    chosen = applied(scenario.techniques)

    def fits(cluster: ClusterSpec, mbs: int, batch: int) -> bool:
        try:
            other = prepare_step(
                prepared.model, cluster, training.model_copy(update={"global_batch": batch}),
                plan.model_copy(update={"mbs": mbs, "dp": "auto", "shard_group": None}), chosen,
            )  # fmt: skip
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

    def on(count: int) -> bool:
        cluster = prepared.cluster.model_copy(
            update={"nodes": max(1, count // per_node), "devices_per_node": min(per_node, count)}
        )
        dp = count // inner
        return count % min(per_node, count) == 0 and fits(cluster, plan.mbs, dp * plan.mbs * prepared.plan.m)

    fewest = next((count for count in counts if on(count)), None)
    return FitResult(
        memory.fits, memory.peak_reserved_bytes, memory.capacity_bytes,
        max(memory.peak_reserved_bytes - memory.capacity_bytes, 0.0), memory.stage, memory.at_peak, largest, fewest,
    )  # fmt: skip


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


def compare(a: Source, b: Source) -> Comparison:
    """Where the difference between two scenarios comes from."""
    from windtunnel.report.compare import difference

    return difference(simulate_training(a), simulate_training(b))


def explain(source: Source, *, against_s: float | None = None) -> Any:
    """The chain behind a prediction, and what could explain a measured time."""
    from windtunnel.report.explain import explain as explain_result

    return explain_result(simulate_training(source), against_s)


def validate(
    rows: str | Path | list[dict[str, Any]] | None = None, *, families: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Predict measured rows. Absent rows mean the ones we ship."""
    from windtunnel.validation.run import validate as run

    report: dict[str, Any] = run(rows, families=tuple(families), progress=progress).to_dict()
    return report
