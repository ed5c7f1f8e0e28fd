"""Settings that a scenario states and that do not act on its prediction: each is named in a warning.

Fields of the plan and of the workload declare when they do nothing next to themselves (`specs.switches.Switch`); here
are the settings that act in part, and those of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from windtunnel.cost.framework_defaults import FULL_PRECISION
from windtunnel.specs.cluster import ClusterRef, groups_of
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.number_formats import MATRIX_FORMAT
from windtunnel.specs.plan import TENSOR_CLASSES
from windtunnel.specs.scenario import Scenario
from windtunnel.specs.switches import ignored_fields
from windtunnel.stacks.defaults import Setting
from windtunnel.stacks.rules import cannot_run, runnable
from windtunnel.training.explain.step_facts import step_facts
from windtunnel.training.step_setup import PreparedStep


def ignored_settings(scenario: Scenario, prepared: PreparedStep) -> tuple[str, ...]:
    """One sentence for each setting that has no effect here, or only part of its effect."""
    found = (
        *_declared(scenario, prepared),
        *_training_in_part(prepared),
        *_order_in_part(scenario, prepared),
        *_around(scenario, prepared),
    )
    return tuple(f"{field} {why}" for field, why in found)


def not_runnable(scenario: Scenario, prepared: PreparedStep) -> tuple[str, ...]:
    """One sentence for each value that the scenario states and that its framework's release cannot run."""
    if scenario.training is None:
        return ()
    stated, device = scenario.training, groups_of(prepared.cluster)[0].device
    setting = Setting.of(stated, device, prepared.model)
    can = runnable(prepared.training.framework, prepared.training.framework_version, setting)
    return cannot_run(scenario.plan, stated, can)


def _declared(scenario: Scenario, x: PreparedStep) -> Iterator[tuple[str, str]]:
    """Fields of the workload and of the plan whose declarations give a reason why they do nothing."""
    plan = scenario.plan
    facts = step_facts(x, plan.recompute)
    for prefix, record in (
        ("training", x.training),
        ("plan", plan),
        ("plan.overlap", plan.overlap),
        ("plan.recompute", plan.recompute),
        ("plan.offload", plan.offload),
    ):
        for field, reason in ignored_fields(record, facts):
            yield f"{prefix}.{field}", f"has no effect: {reason}"


def _given(spec: BaseModel | None, prefix: str, why: dict[str, str | None]) -> Iterator[tuple[str, str]]:
    """Fields that were written down and for which there is a reason why they do nothing."""
    for field, reason in why.items():
        if spec is not None and reason and field in spec.model_fields_set:
            yield f"{prefix}.{field}", f"has no effect: {reason}"


def _training_in_part(x: PreparedStep) -> Iterator[tuple[str, str]]:
    """Settings of the workload that act in another way than they say."""
    training, plan = x.training, x.plan
    if training.optimizer_in_backward and plan.m > 1:
        yield "training.optimizer_in_backward", f"cannot accumulate the {plan.m} micro-batches: memory is too low here"
    if training.precision in FULL_PRECISION:
        if training.attention not in ("auto", "sdpa", "unfused"):
            yield f"training.attention {training.attention}", "has no fp32 kernel; PyTorch's memory-efficient one runs"
        if training.master_weights not in (None, "fp32"):
            why = f"has no effect: under {training.precision} the weights are the master copy"
            yield f"training.master_weights {training.master_weights}", why
    for device in {group.device.id: group.device for group in groups_of(x.cluster)}.values():
        if MATRIX_FORMAT[training.precision] not in device.peak_flop_per_s:
            yield f"training.precision {training.precision}", _stand_in(training.precision, device)


def _stand_in(precision: str, device: DeviceSpec) -> str:
    """What a step is priced as on a device without units for its format.

    A framework asked for bf16 on such a device refuses (DeepSpeed `_do_sanity_check`, Transformers `TrainingArguments`
    before PyTorch emulated it, vLLM's check of compute capability 8.0) or multiplies in fp32 (that emulation, which
    nobody would choose); jobs on it train in fp16, and that is what a step is priced as.
    """
    if precision == "bf16" and "fp16" in device.peak_flop_per_s:
        why = "frameworks refuse it there or emulate it in fp32, several times slower"
        return f"is no format of {device.id}: {why}; priced as fp16, so write precision: fp16"
    return f"is no format of {device.id}; nearest rate taken"


def _order_in_part(scenario: Scenario, x: PreparedStep) -> Iterator[tuple[str, str]]:
    """An order of axes that places the expert axis where it cannot lie."""
    plan, given = x.plan, scenario.plan
    if "order" in given.model_fields_set and plan.ep > 1 and "ep" in plan.order and plan.order.index("ep") != 2:
        yield "plan.order", "does not place ep: expert groups are cut from neighbouring ranks inside a stage"


def _around(scenario: Scenario, x: PreparedStep) -> Iterator[tuple[str, str]]:
    """Sections and settings of the cluster that a training step does not read."""
    unread = "`train` does not read it"
    yield from _given(scenario, "scenario", {"serving": unread, "search": unread})
    if isinstance(scenario.cluster, ClusterRef):
        away = x.plan.offload
        tiers = {away.tier_of(name) for name in TENSOR_CLASSES if getattr(away, name)}
        unread_host = None if tiers else "nothing is offloaded"
        host = ("host_memory_bytes", "host_memory_bytes_per_s", "host_cores", "devices_per_host_link")
        unused: dict[str, str | None] = dict.fromkeys(host, unread_host)
        if "host_reduce" in dict(x.plan.collectives).values():
            unused |= dict.fromkeys(("host_memory_bytes_per_s", "devices_per_host_link"))
        unused["storage"] = None if "nvme" in tiers else "nothing is offloaded to drives"
        unused["cxl"] = None if "cxl" in tiers else "nothing is offloaded to CXL memory"
        yield from _given(scenario.cluster, "cluster", unused)
        out = scenario.cluster.scale_out
        if not isinstance(out, str):
            plain = out is None or out.fabric is None
            rule = "rates and oversubscription describe the network; state `fabric` for its switches"
            yield from _given(out, "cluster.scale_out", {"topology": rule if plain else None})
