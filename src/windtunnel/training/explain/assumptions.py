"""What a scenario leaves open, the value taken, and whose default it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from windtunnel.specs.plan import TENSOR_CLASSES
from windtunnel.specs.scenario import ModelFile, Scenario
from windtunnel.training.offload.memory_tiers import HOST_MEMORY_BYTES_PER_S, NVME_BYTES_PER_S
from windtunnel.training.results.training_result import Assumption
from windtunnel.training.step_setup import PreparedStep


def assumptions(scenario: Scenario, prepared: PreparedStep, folder: Path) -> tuple[Assumption, ...]:
    """Everything that was filled in, from the cluster to the plan; nothing that has no effect on this step."""
    found = [*prepared.cluster.assumed, *_model(scenario, folder), *_training(scenario, prepared)]
    found += _host(prepared)
    return tuple(Assumption(*item) for item in (*found, *_plan(scenario, prepared)))


def _host(x: PreparedStep) -> Iterator[tuple[str, str, str]]:
    """Rates of a node that offloading takes where nothing is known of it."""
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

        yield from read_hf_config(folder / scenario.model.config).assumed


def _training(scenario: Scenario, x: PreparedStep) -> Iterator[tuple[str, str, str]]:
    training, how = x.training, x.behaviour
    given = scenario.training.model_fields_set if scenario.training else frozenset()
    if "framework" not in given:
        yield "training.framework", training.framework, "default; it sets what is not said below"
    if "precision" not in given:
        yield "training.precision", training.precision, "default"
    if training.optimizer == "adam" and training.master_weights is None:
        bits = int(8 * (how.master_bytes or how.weight_bytes))
        yield "training.master_weights", f"{bits} bit", f"as {training.framework}"
    if x.plan.dp * x.plan.cp > 1 and training.grad_reduce_precision is None:
        yield (
            "training.grad_reduce_precision",
            f"{int(8 * how.wire_bytes(training.precision))} bit",
            f"as {training.framework}",
        )
    if training.attention == "auto":
        yield "training.attention", x.plan.attention, f"as {training.framework}"
    if x.model.num_experts:
        if training.moe_dispatcher is None:
            yield "training.moe_dispatcher", x.plan.dispatcher, f"as {training.framework}"
        if x.plan.ep > 1 and "expert_load" not in given:
            yield "training.expert_load", "even", "no loads given; the busiest expert rank sets the time"


def _plan(scenario: Scenario, x: PreparedStep) -> Iterator[tuple[str, str, str]]:
    plan, given = x.plan, scenario.plan
    framework = f"as {x.training.framework}"
    open_ = {"zero", "mbs", "recompute"} - given.model_fields_set
    for field in ("zero", "mbs"):
        if field in open_:
            yield f"plan.{field}", str(getattr(plan, field)), "default"
    if "recompute" in open_:
        yield "plan.recompute", plan.recompute.policy, "default"
    if plan.tp > 1 and given.sp is None:
        yield "plan.sp", _switch(plan.sp), framework
    if plan.pp > 1:
        if given.schedule is None:
            yield "plan.schedule", plan.schedule, "default for this vpp"
        if given.stage_layers is None:
            yield "plan.stage_layers", _layers(plan.stage_layers), "even split"
    acts = {
        "tp": plan.tp > 1,
        "p2p": plan.pp > 1,
        "moe_a2a": plan.ep > 1,
        "fsdp_prefetch": plan.zero == 3,
        "grad_reduce": plan.dp * plan.cp > 1 and plan.zero < 3,
        "param_gather": plan.dp * plan.cp > 1 and plan.zero in (1, 2),
    }
    for field, matters in acts.items():
        if matters and getattr(given.overlap, field) is None:
            name = field if field == "fsdp_prefetch" else f"overlap_{field}"
            yield f"plan.overlap.{field}", _switch(getattr(plan, name)), framework


def _switch(value: bool) -> str:
    return "on" if value else "off"


def _layers(layers: tuple[int, ...]) -> str:
    if len(set(layers)) == 1:
        return f"{layers[0]} each"
    return ", ".join(map(str, layers)) if len(layers) <= 16 else f"{min(layers)} to {max(layers)}"
