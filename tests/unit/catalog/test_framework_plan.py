"""What a framework sets in a plan where a scenario is silent, and that what is stated wins."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.catalog import framework_plan
from windtunnel.catalog.parameters import count_parameters
from windtunnel.specs.plan import PlanSpec, Recompute
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.explain.assumptions import assumptions
from windtunnel.training.predict import folder_of, prepare


def step(framework: str, *, device: str = "h100-sxm-80gb", devices: int = 8, **fields: Any) -> dict[str, Any]:
    nodes = max(1, devices // 8)
    return {
        "model": "meta-llama/Llama-3.2-1B",
        "cluster": {"device": device, "nodes": nodes, "devices_per_node": devices // nodes},
        "training": {"seq_len": 2048, "global_batch": 16, "framework": framework, **fields.pop("training", {})},
        "plan": fields,
    }


@pytest.mark.parametrize(
    ("framework", "zero", "policy"),
    [
        ("torchtitan", 3, "modules"),
        ("fsdp1", 3, "none"),
        ("megatron_core", 1, "none"),
        ("ddp", 0, "none"),
        ("jax", 3, "full"),
        ("t5x", 0, "modules"),
    ],
)
def test_sharding_and_recomputation_are_the_framework_s_own(framework: str, zero: int, policy: str) -> None:
    plan = prepare(step(framework))[0].plan
    assert (plan.zero, plan.recompute.policy) == (zero, policy)


def test_what_is_stated_wins_and_one_replica_shards_nothing() -> None:
    plan = prepare(step("torchtitan", zero=1, recompute="none"))[0].plan
    assert (plan.zero, plan.recompute) == (1, Recompute())
    assert prepare(step("fsdp1", devices=1))[0].plan.zero == 0


def test_a_filled_field_stays_open_and_names_its_source() -> None:
    prepared, scenario = prepare(step("torchtitan"))
    assert "recompute" not in scenario.plan.model_fields_set
    found = {a.field: a for a in assumptions(scenario, prepared, folder_of(scenario))}
    assert found["plan.zero"].value == "3" and "data_parallel_shard_degree" in found["plan.zero"].why
    assert "ActivationCheckpointConfig" in found["plan.recompute"].why


def test_adapters_are_those_of_the_framework_s_configuration() -> None:
    training = prepare(step("torchtune", training={"phase": "lora"}))[0].training
    assert training.lora is not None and (training.lora.rank, training.lora.targets) == (8, ("q", "v"))
    assert "lora" not in training.model_fields_set


def test_one_replica_over_three_axes_shards_nothing() -> None:
    asked = step("torchtitan", tp=2, pp=2, cp=2)
    assert prepare(asked)[0].plan.zero == 0
    assert prepare(step("torchtitan", tp=2, pp=2))[0].plan.zero == 3


def test_room_is_what_a_tenth_of_memory_leaves() -> None:
    """Llama 3.2 1B: 16 layers, inputs of 2048, 32 heads of queries and of outputs, 8 of keys and of values, of 64."""
    model, device = catalog.model("meta-llama/Llama-3.2-1B"), catalog.device("h100-sxm-80gb")
    kept = 16 * (2048 + (2 * 32 + 2 * 8) * 64)
    needed = 2.0 * kept * (2 * 2048 / 2 / 4) + 12.0 * count_parameters(model).total / 8
    for share, room in ((1.0 + 1e-9, True), (1.0 - 1e-9, False)):
        sized = device.model_copy(update={"memory_bytes": needed / 0.9 * share})
        cluster = catalog.cluster("dgx-h100").model_copy(update={"device": sized})
        training = TrainingSpec(seq_len=2048, global_batch=16)
        plan = PlanSpec(mbs=2, cp=2, tp=4)
        assert framework_plan._room_for_attention(plan, training, cluster, model) is room


def test_layers_that_a_release_offloads_are_a_share_of_the_model_unless_something_is_stated() -> None:
    asked = step("megatron_bridge", device="gb200", devices=8, zero=3, training={"framework_version": "25.11"})
    asked = asked | {
        "model": "meta-llama/Llama-3.1-70B",
        "cluster": {"device": "gb200", "nodes": 2, "devices_per_node": 4},
    }
    assert prepare(asked)[0].plan.offload.activations == 20 / 80
    stated = asked | {"plan": {"zero": 3, "offload": {"activations": 0.5}}}
    assert prepare(stated)[0].plan.offload.activations == 0.5
    assert prepare(step("torchtitan"))[0].plan.offload.activations == 0.0
