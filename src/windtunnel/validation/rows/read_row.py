"""The only place where a measured row becomes a scenario.

`read` never raises: what cannot be expressed comes back with a reason. A scenario depends on the row's configuration
alone (see `rows.parsing.context`), never on the row's identity, source or notes, nor on what was measured or predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from windtunnel import catalog
from windtunnel.importers.bridge_recipes import launches_recipe
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.megatron_bridge import read_recipe
from windtunnel.importers.settings import flatten
from windtunnel.scenarios.load import load_scenario
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.recipes import commit_date
from windtunnel.validation.rows.kernel_targets import kernel_target
from windtunnel.validation.rows.outcome_rows import family_of, outcome_kind
from windtunnel.validation.rows.parsing.context import Context, context
from windtunnel.validation.rows.parsing.hardware import canonical_device, read_hardware
from windtunnel.validation.rows.parsing.layout_names import fill_named_layout
from windtunnel.validation.rows.parsing.loose_values import count, mapping, number, words
from windtunnel.validation.rows.parsing.model import read_model
from windtunnel.validation.rows.parsing.overlap import read_overlap
from windtunnel.validation.rows.parsing.pattern_tables import matches
from windtunnel.validation.rows.parsing.plan import Axes, read_axes, read_policies
from windtunnel.validation.rows.parsing.power import device_of, is_power_row
from windtunnel.validation.rows.parsing.precision import read_precision
from windtunnel.validation.rows.parsing.recompute import read_offload, read_recompute
from windtunnel.validation.rows.parsing.serving import read_serving
from windtunnel.validation.rows.parsing.software import (
    framework,
    frozen_weights,
    read_software,
    unpacked_length,
)
from windtunnel.validation.rows.serving_targets import serving_unit
from windtunnel.validation.rows.targets import Target, Work, training_targets

_LAUNCH = ("plan.recompute", "plan.zero", "training.optimizer", "training.attention")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCase:
    """One measured row, read."""

    id: str
    row_kind: str
    """training | serving | power | collective | kernel | a kind of `outcome_rows`."""
    family: str
    device: str
    """Canonical id where the catalogue knows the part, else the row's own word."""
    metrics: tuple[Target, ...]
    scenario: Scenario | None = None
    """Training and serving rows that can be expressed."""
    reason: str = ""
    """Why there is no scenario."""
    assumed: tuple[tuple[str, str, str], ...] = ()
    """(field, value, why) for every opening that was filled."""
    assumed_fields: frozenset[str] = frozenset()
    """Which of plan (axes, micro-batch), precision, recompute and network were not stated but assumed."""


def row_kind(row: dict[str, Any]) -> str:
    """Which kind of measurement a row is."""
    if row.get("kind") == "serving":
        return "serving"
    if (outcome := outcome_kind(row)) is not None:
        return outcome
    if isinstance(row.get("scenario"), dict):
        return "serving" if "training" not in row["scenario"] else "training"
    if "parallel" in row:
        return "training"
    if "busbw_GBps" in row:
        return "collective"
    if "dtype" in row:
        return "kernel"
    if is_power_row(row):
        return "power"
    return "training" if "model" in row and "hardware" in row else "unknown"


def read(row: Any) -> RowCase:
    """Turn one measured row into a scenario, or into a reason why not. Never raises."""
    if not isinstance(row, dict):
        return RowCase(id="", row_kind="unknown", family="", device="", metrics=(), reason="a row must be a mapping")
    kind = row_kind(row)
    try:
        if outcome_kind(row) is not None:
            return RowCase(id=_id(row), row_kind=kind, family=family_of(row), device=_part(row), metrics=())
        if isinstance(row.get("scenario"), dict):
            return _own(row, kind)
        if kind == "training":
            return _training(row)
        if kind == "serving":
            return _serving(row)
        if kind == "power":
            return RowCase(id=_id(row), row_kind=kind, family="power", device=device_of(row), metrics=())
        return _micro(row, kind)
    except Exception as error:  # a row that we cannot read is an answer, not a crash
        text = " ".join(str(error).split())[:200]
        return RowCase(
            id=_id(row),
            row_kind=kind,
            family=str(row.get("family") or ""),
            device=_device(row),
            metrics=training_targets(row, None),
            reason=f"could not be read: {type(error).__name__}: {text}",
        )


def _own(row: dict[str, Any], kind: str) -> RowCase:
    """A row that states the scenario it was measured under (`windtunnel measure`): nothing is read into it."""
    scenario = load_scenario(row["scenario"])
    training = scenario.training
    if training is None or isinstance(scenario.cluster, str) or not isinstance(scenario.model, ModelSpec):
        return RowCase(
            id=_id(row),
            row_kind=kind,
            family=str(row.get("family") or "own"),
            device="own",
            metrics=training_targets(row, None),
            reason="rows with a scenario of their own are read for training, with model and cluster written out",
        )
    cluster = scenario.cluster
    devices = getattr(cluster, "nodes", 1) * getattr(cluster, "devices_per_node", 1)
    tokens = float(training.global_batch * training.seq_len)
    work = Work(tokens, float(training.global_batch), devices, training.seq_len, scenario.model)
    device = getattr(cluster, "device", "own")
    name = device if isinstance(device, str) else str(getattr(device, "id", "own"))
    return RowCase(
        id=_id(row),
        row_kind=kind,
        family=str(row.get("family") or "own"),
        device=name,
        metrics=training_targets(row, work),
        scenario=scenario,
    )


def _id(row: dict[str, Any]) -> str:
    return str(row.get("id") or "")


def _device(row: dict[str, Any]) -> str:
    hardware = row.get("hardware")
    source = mapping(hardware) if isinstance(hardware, dict) else {"device": hardware}
    own = source.get("device") or row.get("device")
    canonical = source.get("device_canonical")
    return canonical_device(own, canonical) or str(own or canonical or "unknown")


def _part(row: dict[str, Any]) -> str:
    """The device of an outcome row; empty where it names none."""
    return _device(row) if row.get("device") else ""


def _training(row: dict[str, Any]) -> RowCase:
    """A row of a training run, as other projects and papers publish them."""
    if (launched := _launched(row)) is not None:
        return launched
    ctx = context(row)
    family = str(row.get("family") or "")
    device = _device(row)

    def without(reason: str) -> RowCase:
        return RowCase(
            id=_id(row),
            row_kind="training",
            family=family,
            device=device,
            metrics=training_targets(row, None),
            scenario=None,
            reason=reason,
            assumed=tuple(ctx.assumed),
            assumed_fields=frozenset(ctx.assumed_fields),
        )

    run = _run_of(ctx, device)
    if isinstance(run, str):
        return without(run)
    scenario = _training_scenario(ctx, run, device)
    if isinstance(scenario, str):
        return without(scenario)
    if "t5x" in ctx.framework:
        ctx.merge(_LAUNCH, "recipe", "the table leaves out the launch configuration; the framework's defaults")
    axes, cluster = run.axes, run.cluster
    sequences = float(number(row.get("global_batch")) or axes.global_batch)
    tokens = sequences * axes.seq_len
    scale = tokens / (axes.global_batch * run.seq_len)
    return RowCase(
        id=_id(row),
        row_kind="training",
        family=family,
        device=cluster.device if isinstance(cluster.device, str) else device,
        metrics=training_targets(row, Work(tokens, sequences, run.devices, axes.seq_len, run.model, scale)),
        scenario=scenario,
        reason="",
        assumed=tuple(ctx.assumed),
        assumed_fields=frozenset(ctx.assumed_fields),
    )


def _launched(row: dict[str, Any]) -> RowCase | None:
    """A row whose command launches a known recipe: the scenario that `import` makes of that command."""
    command, hardware = row.get("command"), row.get("hardware")
    if not isinstance(command, str) or not launches_recipe(command) or not isinstance(hardware, dict):
        return None
    device, devices = _device(row), count(hardware.get("count"))
    per_node = count(hardware.get("per_node")) or (min(devices, 8) if devices else None)
    nodes = max(devices // per_node, 1) if devices and per_node else None
    wanted = Wanted(device=device, nodes=nodes, devices_per_node=per_node)
    launch = _launch_as_stated(row, command, wanted)
    if launch is None:
        return None
    scenario = load_scenario({**launch.scenario(), "name": str(row.get("family") or "")})
    model = catalog.model(scenario.model) if isinstance(scenario.model, str) else scenario.model
    training, cluster = scenario.training, scenario.cluster
    if training is None or not isinstance(model, ModelSpec) or not isinstance(cluster, ClusterRef):
        return None
    sequences, size = float(training.global_batch), cluster.nodes * cluster.devices_per_node
    return RowCase(
        id=_id(row),
        row_kind="training",
        family=str(row.get("family") or ""),
        device=cluster.device if isinstance(cluster.device, str) else device,
        metrics=training_targets(row, Work(sequences * training.seq_len, sequences, size, training.seq_len, model)),
        scenario=scenario.model_copy(update={"model": model}),
        assumed=tuple(launch.assumed),
    )


_STATED = {"global_batch": "training.global_batch", "micro_batch": "plan.mbs", "seq_len": "training.seq_len"}


def _launch_as_stated(row: dict[str, Any], command: str, wanted: Wanted) -> Launch | None:
    """A row's command, read with the newest recipe, or with that of the row's commit where this fits the row better.

    Rows state the commit that their branch began at. Recipes were changed on that branch and came to the main branch
    with the row: NVIDIA-NeMo/Megatron-Bridge 16846a8d adds a card of commit 5c56eab3 together with the recipes that the
    card launches, of which some do not exist at 5c56eab3.
    """
    commit = str(mapping(row.get("environment")).get("bridge_commit") or "")
    stated = {path: size for name, path in _STATED.items() if (size := count(row.get(name)))}
    for axis in ("tp", "pp", "cp", "ep"):
        if size := count(mapping(row.get("parallel")).get(axis)):
            stated[f"plan.{axis}"] = size
    read = [
        (sum(found.get(path) != size for path, size in stated.items()), launch)
        for version in dict.fromkeys(("", commit_date("megatron_bridge", commit) or ""))
        if not (launch := read_recipe(command, "command", wanted, version)).problems
        and (found := flatten(load_scenario(launch.scenario()).model_dump(include={"training", "plan"})))
    ]
    if not read:
        return None
    _, launch = min(read, key=lambda entry: entry[0])
    for path, size in stated.items():
        launch.set(path, size, "the row")
    return launch


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrainingRun:
    """What a training row ran, before its plan and its software are written as a scenario."""

    model: ModelSpec
    cluster: ClusterRef
    devices: int
    software: str
    axes: Axes
    seq_len: int
    """Tokens that one simulated sequence holds: the mean length where documents are not packed."""
    precision: dict[str, Any]
    """Fields of `TrainingSpec` that state number formats."""


def _run_of(ctx: Context, device: str) -> _TrainingRun | str:
    """Model, cluster, software and axes of a row, or the reason why one of them cannot be read."""
    model = read_model(ctx)
    if isinstance(model, str):
        return model
    hardware = read_hardware(ctx)
    if isinstance(hardware, str):
        return hardware
    cluster, devices = hardware
    fill_named_layout(ctx, device, devices, count(ctx.fields.get("global_batch")))
    software = framework(ctx)
    sharded = matches(r"fsdp|zero-?3|full_shard", words(ctx.parallel.get("zero_stage")))
    if software in ("ddp", "generic") and sharded:
        software = "fsdp1"
    precision = read_precision(ctx)
    axes = read_axes(ctx, model, cluster, devices, software, precision["precision"])
    if isinstance(axes, str):
        return axes
    length = unpacked_length(ctx)
    seq_len = round(length) if length else axes.seq_len
    return _TrainingRun(
        model=model,
        cluster=cluster,
        devices=devices,
        software=software,
        axes=axes,
        seq_len=seq_len,
        precision=precision,
    )


def _training_scenario(ctx: Context, run: _TrainingRun, device: str) -> Scenario | str:
    """The scenario of a row, or what the specs refuse in it."""
    model, axes, cluster, software = run.model, run.axes, run.cluster, run.software
    recompute, sent = read_recompute(ctx)
    policies = {"recompute": recompute, "offload": read_offload(ctx, sent, model.num_hidden_layers)}
    training = frozen_weights(ctx, read_software(ctx, model, device, axes.tp, software) | run.precision)
    try:
        plan = PlanSpec.model_validate(
            {
                **{name: getattr(axes, name) for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "dp", "mbs")},
                **{name: value for name, value in policies.items() if value is not None},
                "overlap": read_overlap(ctx),
                **read_policies(ctx, axes, model, software, cluster.devices_per_node),
            }
        )
        spec = TrainingSpec.model_validate({**training, "seq_len": run.seq_len, "global_batch": axes.global_batch})
        return Scenario(name=_name(ctx, model), model=model, cluster=cluster, training=spec, plan=plan)
    except ValidationError as error:
        return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())


def _name(ctx: Context, model: ModelSpec) -> str:
    return f"{ctx.family} {model.name}".strip()


def _serving(row: dict[str, Any]) -> RowCase:
    targets = []
    for key, value in mapping(row.get("metrics")).items():
        measured = number(value)
        if measured is not None:
            targets.append(Target(key, serving_unit(key), measured, lambda r: float("nan")))
    family = str(row.get("set") or row.get("family") or "")
    found = read_serving(row)
    return RowCase(
        id=_id(row),
        row_kind="serving",
        family=family,
        device=_device(row),
        metrics=tuple(targets),
        scenario=found.scenario,
        reason=found.reason,
        assumed=found.assumed,
    )


def _micro(row: dict[str, Any], kind: str) -> RowCase:
    target, reason = kernel_target(row, kind)
    family = str(row.get("op") or row.get("family") or "")
    return RowCase(
        id=_id(row), row_kind=kind, family=family, device=_device(row), metrics=target, scenario=None, reason=reason
    )
