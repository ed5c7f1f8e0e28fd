"""What a framework sets in a plan and a workload where the scenario is silent, by release, device and model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar, cast

from windtunnel.catalog.parameters import count_parameters
from windtunnel.specs.base import Spec
from windtunnel.specs.cluster import ClusterSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.plan import PlanSpec, Recompute
from windtunnel.specs.workload import LoraSpec, TrainingSpec
from windtunnel.stacks.defaults import ReleaseDefault, Setting, asks, scenario_defaults

SpecT = TypeVar("SpecT", bound=Spec)


def with_framework_plan(
    plan: PlanSpec, training: TrainingSpec, cluster: ClusterSpec, model: ModelSpec
) -> tuple[PlanSpec, TrainingSpec]:
    """A plan and a workload with the framework's defaults in the fields that the scenario leaves open.

    Fields stay open in the record: what a file states can still be told from what was filled in.
    """
    found = {name: entry.value for name, entry in plan_defaults(plan, training, cluster, model).items()}
    if "recompute" in found:
        found["recompute"] = recompute_of(found["recompute"])
    if (layers := found.pop("offloaded_layers", 0)) and "offload" not in plan.model_fields_set:
        share = min(1.0, layers / model.num_hidden_layers)
        found["offload"] = plan.offload.model_copy(update={"activations": share})
    return _filled(plan, found), _filled(training, _workload(training, cluster, model))


def plan_defaults(
    plan: PlanSpec, training: TrainingSpec, cluster: ClusterSpec, model: ModelSpec
) -> dict[str, ReleaseDefault]:
    """Field of a plan that the scenario leaves open → what the framework sets, and where that stands."""
    framework, version = training.framework, training.framework_version
    setting = Setting.of(training, cluster.device, model)
    if "zero" in plan.model_fields_set:
        zero = plan.zero
    elif cluster.num_devices == plan.tp * plan.pp * plan.cp:
        zero = 0  # one replica shards nothing
    else:
        entry = scenario_defaults("plan", framework, version, setting).get("zero")
        zero = plan.zero if entry is None else int(entry.value)
    setting = replace(setting, zero=zero)
    if asks("room", framework):
        setting = replace(setting, room=_room_for_attention(plan, training, cluster, model))
    found = scenario_defaults("plan", framework, version, setting)
    if "zero" in found:
        found["zero"] = replace(found["zero"], value=zero)
    return {name: entry for name, entry in found.items() if name not in plan.model_fields_set}


def recompute_of(value: Any) -> Recompute:
    """Recomputation as a framework's file states it: a policy, or modules."""
    if isinstance(value, list | tuple):
        return Recompute(policy="modules", modules=tuple(value))
    return Recompute(policy=value)


def _workload(training: TrainingSpec, cluster: ClusterSpec, model: ModelSpec) -> dict[str, Any]:
    setting = Setting.of(training, cluster.device, model)
    found = scenario_defaults("training", training.framework, training.framework_version, setting)
    values = {name: entry.value for name, entry in found.items()}
    if "lora" in values:
        values["lora"] = LoraSpec.model_validate(values["lora"])
    return values


def _filled(record: SpecT, values: dict[str, Any]) -> SpecT:
    own = {name: value for name, value in values.items() if name not in record.model_fields_set}
    if not own:
        return record
    return cast("SpecT", type(record).model_construct(set(record.model_fields_set), **{**dict(record), **own}))


def _room_for_attention(plan: PlanSpec, training: TrainingSpec, cluster: ClusterSpec, model: ModelSpec) -> bool:
    """Whether block inputs, queries, keys, values and attention outputs of a micro-batch fit beside sharded states.

    Elements in two bytes, weights and two moments in twelve a parameter over all devices; a tenth of memory is left.
    """
    tokens = plan.mbs * training.seq_len / plan.cp / plan.tp
    kept = 0
    for kind in model.layer_kinds():
        size, kv_heads, projections = model.attention_dims(windowed=kind in "WX")
        kept += model.hidden_size + (2 * model.num_attention_heads + projections * kv_heads) * size
    states = 12.0 * count_parameters(model).total / cluster.num_devices
    return 2.0 * kept * tokens + states < 0.9 * cluster.device.memory_bytes
