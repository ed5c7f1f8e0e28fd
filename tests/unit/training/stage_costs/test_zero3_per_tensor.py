"""Stage 3 that gathers weight by weight: what the host launches, what is copied, what is fetched twice."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from windtunnel import graph
from windtunnel.api import explain
from windtunnel.api import plan as best_plan
from windtunnel.graph import Batch
from windtunnel.specs.model import ModelSpec
from windtunnel.training.data_parallel.comm_costs import DataParallelComm, GroupComm
from windtunnel.training.data_parallel.per_tensor_zero3 import LAUNCH_S, TensorLists
from windtunnel.training.predict import prepare, simulate_training
from windtunnel.training.step_setup import PreparedStep, options_of


def gpt(hidden: int, layers: int = 4) -> dict[str, Any]:
    return {
        "name": f"GPT {hidden}",
        "family": "dense",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "vocab_size": 51200,
        "num_attention_heads": 16,
        "intermediate_size": 4 * hidden,
        "gated_mlp": False,
        "norm": "layernorm",
        "attention_bias": True,
        "mlp_bias": True,
        "position_embedding": "learned",
    }


def scenario(nodes: int = 2, hidden: int = 4096, framework: str = "megatron_deepspeed", **plan: Any) -> dict[str, Any]:
    return {
        "model": gpt(hidden),
        "cluster": {"device": "a100-sxm-80gb", "nodes": nodes, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 16 * nodes, "precision": "fp16", "framework": framework},
        "plan": {"zero": 3, "mbs": 1, "recompute": "full"} | plan,
    }


def traffic(**changes: Any) -> DataParallelComm:
    x: PreparedStep = prepare(scenario(**changes))[0]
    options = options_of(x.training, x.plan, x.behaviour, x.coefficients, ())
    return GroupComm(x.stages, x.plan, x.cluster, x.training, x.behaviour, options)


@pytest.mark.parametrize(("hidden", "again"), [(4096, 0.0), (12288, 8 / 12)])
def test_weights_whose_next_use_is_far_are_fetched_twice(hidden: int, again: float) -> None:
    """Of 3 + 1 + 4 + 4 h² all but the last are further than 1e9 elements from their backward at h = 12,288."""
    model = ModelSpec.model_validate(gpt(hidden))
    lists = TensorLists.of(graph.build(model, Batch.train(1, 2048)))
    assert lists.tensors == 4.0  # biases and norms stay whole
    assert lists.second_gather == pytest.approx(again, rel=1e-3)


def test_the_host_launches_a_copy_for_every_rank_and_weight() -> None:
    few, many = traffic(nodes=2).launched()[0], traffic(nodes=8).launched()[0]
    assert few == pytest.approx(4 * 16 * LAUNCH_S)
    assert many == pytest.approx(4 * few)


def test_copies_out_of_and_into_lists_are_moved_through_memory() -> None:
    listed, whole = traffic(), traffic()
    whole.lists = None
    layers = 4.0
    weights = float(listed.stages.dense_params.sum())
    for name, passes in (("gather", 3.0), ("reduce", 2.0)):
        more = getattr(listed, name)(layers).hbm_bytes.sum() - getattr(whole, name)(layers).hbm_bytes.sum()
        assert more == pytest.approx(passes * 2.0 * weights / layers, rel=1e-6), name
        assert getattr(listed, name)(layers).seconds.sum() > getattr(whole, name)(layers).seconds.sum()


def test_nothing_is_hidden_behind_computation() -> None:
    x = traffic(nodes=8)
    layers, (host, _) = 4, x.launched()
    gather, reduce = (float(getattr(x, name)(layers).seconds.sum()) for name in ("gather", "reduce"))
    exposed = simulate_training(scenario(nodes=8), sensitivities=False).breakdown["exposed dp"]
    micro_batches = 2
    # the last layer of forward is still there in backward
    one = (2 * layers - 1) * (gather + host) + layers * (reduce + host)
    assert exposed == pytest.approx(micro_batches * one, rel=1e-6)


@pytest.mark.parametrize("changes", [{"zero": 1}, {"framework": "torchtitan"}, {"nodes": 1, "tp": 8}])
def test_other_stages_and_frameworks_do_not(changes: dict[str, Any]) -> None:
    assert traffic(**changes).launched() == (0.0, 0.0)


def test_the_parts_of_a_step_still_add_up() -> None:
    found = explain(scenario(nodes=8))
    assert found.chain is not None
    shares = found.result.breakdown
    assert sum(shares.values()) == pytest.approx(found.result.step_time_s, rel=1e-9)


def test_the_planner_finds_the_best_of_what_it_can_enumerate() -> None:
    space = {"tp": [1, 2, 8], "zero": [1, 3], "mbs": [1, 2]}
    found = best_plan(scenario() | {"plan": {"recompute": "full"}, "search": {"space": space | {"pp": [1]}}})
    times = []
    for tp, zero, mbs in product(space["tp"], space["zero"], space["mbs"]):
        run = simulate_training(scenario(tp=tp, zero=zero, mbs=mbs), sensitivities=False)
        if run.memory.peak_reserved_bytes <= run.memory.capacity_bytes:
            times.append(run.step_time_s)
    assert found.best is not None
    assert found.best.step_time_s == pytest.approx(min(times), rel=1e-12)
