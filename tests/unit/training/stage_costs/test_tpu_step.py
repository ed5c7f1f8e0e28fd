"""Compiled steps on torus machines: wrap-around links, loops over layers, named tensors, transfers by DMA engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api, catalog
from windtunnel.cost.attention import AttentionWork, attention_time_s, blocked_pairs
from windtunnel.cost.coefficients import coefficients
from windtunnel.network.groups import Mesh
from windtunnel.parallel.recompute import recompute_block
from windtunnel.specs.cluster import ClusterRef
from windtunnel.specs.plan import Recompute
from windtunnel.techniques.step_options import StepOptions
from windtunnel.training.data_parallel.comm_costs import DataParallelComm, GroupComm
from windtunnel.training.step_setup import PreparedStep
from windtunnel.training.task_builder import T_OFFLOAD


def source(
    plan: dict[str, Any] | None = None, *, device: str = "tpu-v5p", chips: int = 64, **model: Any
) -> dict[str, Any]:
    """A model of eight layers on one slice."""
    return {
        "model": {
            "name": "small",
            "hidden_size": 4096,
            "num_hidden_layers": 8,
            "vocab_size": 32000,
            "num_attention_heads": 32,
            "intermediate_size": 14336,
            **model,
        },
        "cluster": {"device": device, "nodes": chips // 4, "devices_per_node": 4, "scale_up_domain": chips},
        "training": {"seq_len": 4096, "global_batch": chips, "framework": "jax"},
        "plan": {"zero": 3, **(plan or {})},
    }


def prepared(plan: dict[str, Any] | None = None, **options: Any) -> PreparedStep:
    return api.prepare(source(plan, **options))[0]


@pytest.mark.parametrize(
    ("device", "chips", "axes"),
    [("tpu-v6e", 256, 2.0), ("tpu-v6e", 128, 1.5), ("tpu-v5e", 64, 1.0), ("tpu-v5p", 64, 3.0), ("tpu-v5p", 8, 1.5)],
)
def test_an_axis_closes_only_where_the_slice_has_wrap_around_links(device: str, chips: int, axes: float) -> None:
    c = catalog.resolve_cluster(ClusterRef(device=device, nodes=chips // 4, devices_per_node=4, scale_up_domain=chips))
    mesh = Mesh({"dp": chips}, ("dp",), c)
    assert float(mesh.placement("dp").torus_axes) == axes
    assert float(mesh.strided(chips, 1).torus_axes) == axes


def test_a_shard_group_has_the_links_of_its_slice() -> None:
    """Hybrid sharding over two slices gathers as fast as one slice that shards alone."""
    one = prepared(chips=64)
    two = api.prepare(
        {
            **source({"shard_group": 64}),
            "cluster": {"device": "tpu-v5p", "nodes": 32, "devices_per_node": 4, "scale_up_domain": 64},
            "training": {"seq_len": 4096, "global_batch": 128, "framework": "jax"},
        }
    )[0]
    places = [float(p.stages.mesh.strided(64, 1).torus_axes) for p in (one, two)]
    assert places == [3.0, 3.0]


def test_named_tensors_are_all_that_a_compiled_checkpoint_keeps() -> None:
    block = prepared().stages.graph.blocks["D"]
    policy = Recompute(policy="modules", modules=("core_attn", "norm", "mlp"))
    kept = {named: {t.name for t in recompute_block(block, [], policy, named=named).kept} for named in (False, True)}
    assert kept[False] - kept[True] == {"attention_out", "rotated"} & kept[False]
    operators = list(block.operators)
    assert "fc2" in recompute_block(block, operators, policy).repeats
    assert "fc2" not in recompute_block(block, operators, policy, named=True).repeats


def test_a_policy_by_names_recomputes_experts_with_the_dense_network() -> None:
    x = prepared(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=4096)
    block = x.stages.graph.blocks["E"]
    policy = Recompute(policy="modules", modules=("core_attn", "norm", "mlp"))
    again = recompute_block(block, list(block.operators), policy, named=True)
    assert {"expert_fc1", "permute"} <= set(again.repeats)
    assert not {t.name for t in again.kept} & {"routed_input", "expert_fc1_out", "expert_act_out"}
    assert "expert_fc1" not in recompute_block(block, list(block.operators), policy).repeats


def test_logits_are_not_offloaded() -> None:
    seconds = []
    for vocab in (32_000, 256_000):
        x = prepared({"offload": {"activations": 1.0}}, vocab_size=vocab)
        seconds.append(float(x.program.tasks.alone_s[x.program.tasks.tag == T_OFFLOAD].sum()))
    assert seconds[0] > 0
    assert seconds[1] == pytest.approx(seconds[0], rel=1e-9)


def test_what_a_loop_over_layers_cannot_prefetch_is_exposed() -> None:
    times = [
        api.simulate_training(
            source(chips=256, device="tpu-v5e"), sensitivities=False, coefficient_overrides={"gather_exposed": x}
        ).step_time_s
        for x in (0.0, 0.5, 1.0)
    ]
    assert times[0] < times[1] < times[2]
    x = prepared(chips=256, device="tpu-v5e")
    size = float(x.stages.dense_params.sum()) * 2.0
    gather = float(x.stages.network.collective("all_gather", size, x.stages.dp_place).alone_s)
    # twice gathered (forward, backward), once reduced, in two bytes each; the layer at the turn is still there
    assert times[2] - times[0] == pytest.approx(3 * gather, rel=0.25)


def test_transfers_between_chips_take_no_compute() -> None:
    """A ring of pieces beside a GEMM holds an SM on a GPU and nothing where links have engines of their own."""
    x = prepared({"tp": 4})
    ring = [launch for s in x.stages.segments for launch in s.launches if launch.name == "tp_gather_qkv"]
    assert ring and all(launch.sm == 0 for launch in ring)


@pytest.mark.parametrize(
    ("device", "d", "padded"), [("tpu-v5p", 64, 2.0), ("tpu-v5p", 128, 1.0), ("tpu-v6e", 128, 2.0)]
)
def test_heads_fill_whole_sides_of_the_systolic_array(device: str, d: int, padded: float) -> None:
    chip = catalog.device(device)
    c = coefficients("jax", chip)
    one, wide = (
        float(
            attention_time_s(
                chip,
                c,
                AttentionWork(
                    pairs=np.float64(1e9),
                    heads=np.float64(heads),
                    d_qk=np.float64(size),
                    d_v=np.float64(size),
                    seq_len=np.float64(8192),
                    kernel="cudnn",
                    backward=False,
                ),
            )
        )
        - c.attention_floor_s
        for heads, size in ((16.0, d), (16.0 * d / 512, 512))
    )
    assert one / wide == pytest.approx(padded)


def test_blocks_of_scores_are_computed_whole() -> None:
    s, block = 8192.0, 2048.0
    queries = np.float64(4 * s)
    causal, windowed, full = 4 * s * s / 2, 4 * (s * 1024 - 1024**2 / 2), 4 * s * s

    def more(pairs: float) -> float:
        return float(blocked_pairs(np.float64(pairs), queries, np.float64(s), block)) - pairs

    assert more(causal) == pytest.approx(queries * block / 2)
    assert more(windowed) == pytest.approx(queries * block)
    assert more(full) == 0.0
    # one block holds the whole sequence: nothing is skipped
    assert float(blocked_pairs(np.float64(2048.0**2 / 2), np.float64(2048.0), np.float64(2048.0), block)) == 2048.0**2


def test_a_generation_without_rows_falls_back_to_its_kind() -> None:
    seen, unseen, gpu = (coefficients("jax", catalog.device(d)) for d in ("tpu-v5e", "tpu-v2", "a100-sxm-80gb"))
    assert unseen.gather_exposed == seen.gather_exposed > 0
    assert unseen.memory_fraction == seen.memory_fraction != gpu.memory_fraction
    assert unseen.gemm_fraction["bf16"] != seen.gemm_fraction["bf16"]
    assert unseen.basis.endswith("on tpu_v4, which stands in for tpu_v2")


def test_t5x_reduces_in_one_go_and_shards_over_the_model_axis_alone() -> None:
    plan = {"tp": 2, "zero": 0}
    new, old = (
        api.simulate_training(
            {**source(plan, device="a100-sxm-80gb", chips=16), "training": {**training, "framework": framework}},
            sensitivities=False,
        )
        for framework in ("jax", "t5x")
        for training in ({"seq_len": 1024, "global_batch": 16, "optimizer": "adam"},)
    )
    assert new.plan["sp"] and not old.plan["sp"]
    assert old.breakdown["exposed dp"] > 2 * new.breakdown["exposed dp"]
    assert old.breakdown["optimizer"] > new.breakdown["optimizer"]


def test_gradients_cross_between_slices_tensor_by_tensor() -> None:
    """A llama block has nine weight tensors; each pays the hops of a ring over the slices."""

    def traffic(slices: int) -> DataParallelComm:
        x = source({"shard_group": 64})
        x["cluster"] = {"device": "tpu-v5e", "nodes": 16 * slices, "devices_per_node": 4, "scale_up_domain": 64}
        x["training"] |= {"global_batch": 64 * slices}
        p = api.prepare(x)[0]
        options = StepOptions(
            overlap_grad_reduce=True, overlap_param_gather=True, overlap_p2p=True, fsdp_prefetch=True, grad_bytes=2.0
        )
        return GroupComm(p.stages, p.plan, p.cluster, p.training, p.behaviour, options)

    assert traffic(2)._tensors() == 9
    assert float(traffic(1).between_slices(8.0).seconds[0]) == 0
    times = [float(traffic(k).between_slices(8.0).seconds[0]) for k in (2, 16)]
    hop = traffic(2).stages.network.params.out.hop_s[2]
    assert times[1] - times[0] > 9 * 2 * 14 * hop
    # inside a slice nothing changes with their number
    assert float(traffic(2).reduce(8.0).seconds[0]) == pytest.approx(float(traffic(16).reduce(8.0).seconds[0]))
