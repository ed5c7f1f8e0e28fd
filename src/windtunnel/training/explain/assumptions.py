"""Assumptions: each setting that a scenario leaves open, the value taken, and whose default it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from windtunnel.catalog.framework_plan import plan_defaults
from windtunnel.cost.framework_defaults import dated_defaults
from windtunnel.importers.model import tuned_from
from windtunnel.specs.plan import TENSOR_CLASSES, Overlap, PlanSpec, Recompute
from windtunnel.specs.scenario import ModelFile, Scenario
from windtunnel.specs.switches import Assumed, StepFacts, open_fields, switches_of
from windtunnel.specs.workload import TrainingSpec
from windtunnel.stacks.defaults import Setting
from windtunnel.stacks.recipes import recipe_asked
from windtunnel.training.explain.step_facts import step_facts
from windtunnel.training.offload.memory_tiers import HOST_MEMORY_BYTES_PER_S, NVME_BYTES_PER_S
from windtunnel.training.results.records import Assumption
from windtunnel.training.step_setup import PreparedStep

PLANNED = "left to the planner"
"""Why a mapping, or an axis of it, was assumed."""
WHOLE_PLAN = "plan"
"""Name of the whole mapping among the assumptions."""
SEARCHED = ("plan.recompute", "plan.zero")
"""Fields of a plan that a planner decides with the mapping, whether or not it writes them."""
_DECIDED_BY = {"attention": "attention", "grad_reduce_precision": "grad_bytes"}
"""Fields of the workload without a `framework_default` of their own → field of the framework's behaviour."""
IN_BULK = "in bulk"
"""Collectives of the backward pass next to the gradients, whole: what layers do until the overlap is stated."""


def assumptions(scenario: Scenario, prepared: PreparedStep, folder: Path) -> tuple[Assumption, ...]:
    """All settings that were filled in and act on this step, from the cluster to the plan."""
    facts = step_facts(prepared, scenario.plan.recompute)
    found = (
        *prepared.cluster.assumed,
        *_model(scenario, folder),
        *_recipe(prepared),
        *_open_fields("training", prepared.training, prepared, facts),
        *_host(prepared),
        *_open_fields("plan", scenario.plan, prepared, facts),
        *_open_fields("plan.overlap", scenario.plan.overlap, prepared, facts),
    )
    return tuple(Assumption(*item) for item in found)


def planned(prepared: PreparedStep, chosen: Collection[str]) -> Iterator[Assumption]:
    """What a planner chose because the scenario leaves it open.

    Args:
        prepared: The step under the planner's plan.
        chosen: `plan` for the whole mapping, or axes such as plan.tp.
    """
    policy = prepared.plan.recompute.policy
    if WHOLE_PLAN in chosen:
        axes = {name: getattr(prepared.plan, name) for name in ("tp", "pp", "vpp", "cp", "ep", "dp", "zero", "mbs")}
        shown = [f"{name} {size}" for name, size in axes.items() if size > 1 or name == "mbs"]
        yield Assumption(WHOLE_PLAN, ", ".join([*shown, f"recompute {policy}"]), PLANNED)
        return
    for path in chosen:
        name = path.removeprefix(f"{WHOLE_PLAN}.")
        if hasattr(prepared.plan, name):
            value = policy if name == "recompute" else str(getattr(prepared.plan, name))
            yield Assumption(path, value, PLANNED)


def _host(x: PreparedStep) -> Iterator[tuple[str, str, str]]:
    """Rates of a node that offloading assumes where the cluster does not state them."""
    away, cluster = x.plan.offload, x.cluster
    tiers = {away.tier_of(name) for name in TENSOR_CLASSES if getattr(away, name)}
    if away.optimizer and cluster.host_memory_bytes_per_s is None:
        rate = f"{HOST_MEMORY_BYTES_PER_S / 1e9:g} GB/s"
        yield "cluster.host_memory_bytes_per_s", rate, "two sockets of a server; copies are not held up by it"
    if "nvme" in tiers and cluster.storage is None:
        yield "cluster.storage", f"{NVME_BYTES_PER_S / 1e9:g} GB/s a device, any size", "drives are not known"


def _model(scenario: Scenario, folder: Path) -> Iterator[tuple[str, str, str]]:
    if isinstance(scenario.model, ModelFile):
        from windtunnel.importers.hf_config import read_hf_config

        yield from read_hf_config(scenario.model.located(folder)).assumed
    yield from tuned_from(scenario)


def _recipe(x: PreparedStep) -> Iterator[tuple[str, str, str]]:
    """The recipe that was named, and in what it was made for something else."""
    training = x.training
    recipe = training.recipe and recipe_asked(training.recipe, training.framework, training.framework_version)
    if not recipe:
        return
    yield "training.recipe", recipe.name, f"{recipe.source}: it sets what the scenario leaves open"
    device, devices = x.cluster.device.id, x.cluster.num_devices
    if recipe.device and not device.startswith(recipe.device):
        yield "training.recipe.device", device, f"the recipe was made for {recipe.device}"
    if recipe.devices and recipe.devices != devices:
        yield "training.recipe.devices", f"{devices:,}", f"the recipe was made for {recipe.devices:,} devices"


def _open_fields(
    section: str, record: TrainingSpec | PlanSpec | Overlap, x: PreparedStep, facts: StepFacts
) -> Iterator[tuple[str, str, str]]:
    """Fields of a section of the scenario that were left open and whose default acts in this step."""
    for name, assumed in sorted(open_fields(record, facts), key=lambda field: _importance(*field)):
        path = f"{section}.{name}"
        yield path, _value(path, x), _origin(record, name, assumed, x)


def _origin(record: TrainingSpec | PlanSpec | Overlap, name: str, assumed: Assumed, x: PreparedStep) -> str:
    """Whose default a value is; of those that differ by release, since when and where that stands."""
    training = x.training
    if isinstance(record, PlanSpec):
        own = plan_defaults(record, training, x.cluster, x.model).get(name)
        if own is not None:
            return f"as {training.framework}{f' since {own.since}' if own.since else ''}: {own.source}"
    said = assumed.origin.format(framework=training.framework)
    decides = switches_of(type(record))[name].framework_default or _DECIDED_BY.get(name)
    known = dated_defaults(
        training.framework, training.framework_version, Setting.of(training, x.cluster.device, x.model)
    )
    if decides not in known or "{framework}" not in assumed.origin:
        return said
    entry = known[decides]
    return f"{said}{f' since {entry.since}' if entry.since else ''}: {entry.source}"


def _importance(name: str, assumed: Assumed) -> tuple[bool, bool]:
    """Place of a field in its section: the framework decides for others, then come defaults that it does not set."""
    return name != "framework", not assumed.origin.startswith("default") or " for " in assumed.origin


def _value(path: str, x: PreparedStep) -> str:
    """The value that a step takes for a field, as a reader of results sees it."""
    defaults, training = x.behaviour, x.training
    if path == "training.master_weights":
        return f"{int(8 * (defaults.master_bytes or defaults.weight_bytes))} bit"
    if path == "training.grad_reduce_precision":
        return f"{int(8 * defaults.wire_bytes(training.precision))} bit"
    if path == "training.decoder_seq_len":
        return str(training.target_length(x.model.family))
    if path == "training.expert_load":
        return "even"
    if path == "plan.overlap.tp" and x.plan.tp_bulk_overlap and not x.plan.overlap_tp:
        return IN_BULK
    section, _, name = path.rpartition(".")
    switch = switches_of({"training": TrainingSpec, "plan": PlanSpec, "plan.overlap": Overlap}[section])[name]
    decided = switch.resolved_as or name
    value = getattr(x.plan, decided) if hasattr(x.plan, decided) else getattr(training, name)
    if isinstance(value, bool):
        return _switch(value)
    if isinstance(value, Recompute):
        return value.policy
    return _layers(value) if isinstance(value, tuple) else str(value)


def _switch(value: bool) -> str:
    return "on" if value else "off"


def _layers(layers: tuple[int, ...]) -> str:
    if len(set(layers)) == 1:
        return f"{layers[0]} each"
    return ", ".join(map(str, layers)) if len(layers) <= 16 else f"{min(layers)} to {max(layers)}"
