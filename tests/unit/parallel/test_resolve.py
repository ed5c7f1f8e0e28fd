"""Plans resolved: defaults of each framework, layer splits, what the passes insert."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.graph import Kind
from windtunnel.parallel.plan_sizes import nearest_divisors, split_layers
from windtunnel.parallel.precision import quantised_gathers, recipe
from windtunnel.training.stage_costs.local_block import local_block
from windtunnel.training.step_setup import PreparedStep


def prepared(plan: dict[str, Any], *, model: Any = None, nodes: int = 8, **training: Any) -> PreparedStep:
    """A resolved plan on 64 devices."""
    source = {
        "model": model or "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "b200-sxm-180gb", "nodes": nodes, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 256, **training},
        "plan": plan,
    }
    return api.prepare(source)[0]


@pytest.mark.parametrize(
    ("depth", "parts", "ends", "layers"),
    [
        (32, 4, False, (8, 8, 8, 8)),
        (126, 16, True, (7, *([8] * 14), 7)),
        (30, 4, True, (7, 8, 8, 7)),
        (10, 4, False, (2, 3, 3, 2)),
        (3, 3, False, (1, 1, 1)),
    ],
)
def test_layers_are_split_evenly_or_with_the_ends_counted(
    depth: int, parts: int, ends: bool, layers: tuple[int, ...]
) -> None:
    assert split_layers(depth, parts, embedding=ends, loss=ends) == layers


def test_nearest_multiples() -> None:
    assert nearest_divisors(16, 30) == (16, 32)
    assert nearest_divisors(12, 64) == (60, 72)
    assert nearest_divisors(16, 5) == (16, 32)


def test_dp_fills_the_cluster() -> None:
    plan = prepared({"tp": 2, "pp": 2, "cp": 2}).plan
    assert (plan.dp, plan.m, plan.shard_group) == (8, 32, 16)
    assert prepared({"tp": 2, "dp": 32}).plan.m == 8


def test_sequence_parallelism_follows_the_framework_unless_given() -> None:
    assert prepared({"tp": 2}).plan.sp
    assert not prepared({"tp": 1}).plan.sp
    assert not prepared({"tp": 2}, framework="megatron_2021").plan.sp
    assert not prepared({"tp": 2, "sp": False}).plan.sp


def test_the_schedule_follows_the_chunks_unless_given() -> None:
    assert prepared({"pp": 2}).plan.schedule == "1f1b"
    assert prepared({"pp": 2, "vpp": 2}).plan.schedule == "interleaved_1f1b"
    assert prepared({"pp": 2, "schedule": "gpipe"}).plan.schedule == "gpipe"


def test_an_unknown_schedule_is_bad_input() -> None:
    with pytest.raises(BadInput, match="1f1b"):
        prepared({"pp": 2, "schedule": "1f1c"})


def collectives(plan: dict[str, Any], **kw: Any) -> list[tuple[str, str, str]]:
    """(axis, forward, backward) of the collectives that the passes put into one layer."""
    x = prepared(plan, **kw)
    g = x.stages.graph
    kind = g.depth[-1]
    batch = x.plan.mbs * x.training.seq_len
    operators = local_block(g.blocks[kind], x.model, x.training, x.plan, float(batch))
    return [(op.axis, op.collective, op.backward_collective) for op in operators if op.kind == Kind.COLLECTIVE]


def test_tensor_parallelism_inserts_what_megatron_does() -> None:
    """Two all-reduces forward and two backward a layer; with sequence parallelism gathers and scatters instead."""
    plain = collectives({"tp": 4, "sp": False})
    assert sorted(f for _, f, _ in plain if f) == ["all_reduce"] * 2
    assert sorted(b for _, _, b in plain if b) == ["all_reduce"] * 2
    sequence = collectives({"tp": 4, "sp": True})
    assert sorted(f for _, f, _ in sequence if f) == ["all_gather"] * 2 + ["reduce_scatter"] * 2
    # backward: gather of the row product's gradient, scatter of the column product's, gather again for its weights
    assert sorted(b for _, _, b in sequence if b) == ["all_gather"] * 4 + ["reduce_scatter"] * 2


def quantised(precision: str, *, sp: bool = True) -> dict[str, Any]:
    """Operators of one layer after the gathers took their precision."""
    x = prepared({"tp": 4, "sp": sp}, precision=precision)
    g = x.stages.graph
    operators = local_block(g.blocks[g.depth[-1]], x.model, x.training, x.plan, float(x.training.seq_len))
    low = recipe(precision, x.coefficients, compiled=False)
    return {op.name: op for op in quantised_gathers(operators, low, x.plan)}


@pytest.mark.parametrize(("precision", "share"), [("fp8", 0.5), ("nvfp4", 0.28125)])
def test_gathers_carry_the_quantised_tensor_and_scatters_sixteen_bits(precision: str, share: float) -> None:
    plain, low = quantised("bf16"), quantised(precision)
    size = plain["tp_gather_fc1"].size_bytes
    assert low["tp_gather_fc1"].size_bytes == pytest.approx(share * size)
    assert low["tp_gather_fc1"].backward_size_bytes == size
    assert low["tp_regather_fc1"].backward_size_bytes == pytest.approx(share * size)
    assert low["tp_reduce_fc2"].size_bytes == size
    assert low["tp_reduce_fc2"].backward_size_bytes == pytest.approx(share * size)


def test_what_is_gathered_is_cast_by_the_rank_that_owns_it() -> None:
    low, without = quantised("fp8"), quantised("fp8", sp=False)
    shares = {name: (low[name].input_cast_share, low[name].grad_cast_share) for name in ("qkv", "proj", "fc1", "fc2")}
    assert shares == {"qkv": (0.25, 1), "fc1": (0.25, 1), "proj": (1, 0.25), "fc2": (1, 0.25)}
    assert {without[name].input_cast_share for name in shares} == {1.0}


@pytest.mark.parametrize(("precision", "share"), [("fp8", 0.75), ("mxfp8", 0.5)])
def test_frozen_products_cast_one_copy(precision: str, share: float) -> None:
    def cast_s(phase: str) -> float:
        seconds = [api.prepare(_case(p, phase))[0].stages.segments[0] for p in ("bf16", precision)]
        plain, low = ({x.name: x.hbm_bytes for x in s.launches} for s in seconds)
        return low["fc2"] - plain["fc2"]

    def _case(used: str, phase: str) -> dict[str, Any]:
        device = "b200-sxm-180gb" if precision == "mxfp8" else "h100-sxm-80gb"  # microscaled units are Blackwell's
        return {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": device, "nodes": 1, "devices_per_node": 8},
            "training": {
                "seq_len": 4096,
                "global_batch": 8,
                "precision": used,
                "phase": phase,
                "framework": "nemo",
                **({"lora": {"quantized_base": False}} if phase == "lora" else {}),  # weights stay in 16 bits
            },
            "plan": {"mbs": 1},
        }

    tokens, width = 4096.0, 14336.0
    bytes_of = {"fp8": 4.0, "mxfp8": 6.0}[precision]
    saved = cast_s("pretrain") - cast_s("lora")
    assert saved == pytest.approx((1 - share) * bytes_of * tokens * width)  # the weight is cast alike


def test_one_rank_communicates_nothing() -> None:
    assert collectives({}) == []
    assert collectives({"pp": 2, "zero": 3}) == []


@pytest.mark.parametrize(
    ("kind", "axes"),
    [("ring", {"cp_ring"}), ("all_to_all", {"cp_a2a"}), ("all_gather", {"cp_ring"}), ("hybrid", {"cp_ring", "cp_a2a"})],
)
def test_context_parallelism_communicates_over_its_axes(kind: str, axes: set[str]) -> None:
    found = collectives({"cp": 4, "cp_kind": kind, "cp_all_to_all": 2 if kind == "hybrid" else 1})
    assert {axis for axis, _, _ in found} == axes


def test_experts_are_reached_by_two_all_to_alls() -> None:
    found = collectives({"ep": 8}, model="mistralai/Mixtral-8x7B-v0.1")
    assert [f for axis, f, _ in found if axis == "ep"] == ["all_to_all"] * 2


@pytest.mark.parametrize("loads", [[1 / 8] * 8, [0.2, 0.2, *([0.1] * 6)]])
def test_measured_expert_loads_set_the_imbalance(loads: list[float]) -> None:
    even = prepared({"ep": 4}, model="mistralai/Mixtral-8x7B-v0.1")
    skewed = prepared({"ep": 4}, model="mistralai/Mixtral-8x7B-v0.1", expert_load={"loads": loads})
    busiest = max(sum(loads[i : i + 2]) for i in range(0, 8, 2)) * 4
    ratio = skewed.stages.seconds.sum() / even.stages.seconds.sum()
    assert 1.0 <= ratio <= busiest * (1 + 1e-12)
    assert (ratio > 1.0) == (busiest > 1.0 + 1e-9)


@pytest.mark.parametrize("policy", ["none", "selective", "full", ["core_attn", "mlp_act"]])
def test_what_recomputation_drops_and_keeps_is_everything(policy: Any) -> None:
    from windtunnel.parallel.recompute import recompute_block

    x = prepared({"recompute": policy})
    g = x.stages.graph
    block = g.blocks["D"]
    operators = local_block(block, x.model, x.training, x.plan, float(x.training.seq_len))
    again = recompute_block(block, operators, x.plan.recompute)
    assert sum(t.elements for t in (*again.kept, *again.dropped)) == sum(t.elements for t in block.tensors)
    assert all(0 <= share <= 1 for share in again.repeats.values())
    assert bool(again.repeats) == (policy != "none")


def test_selective_recomputation_is_the_frameworks_own() -> None:
    from windtunnel.training.predict import prepare

    scenario = {
        "model": "llama2-7b",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 8},
        "plan": {"zero": 3, "recompute": "selective"},
    }
    modules = {
        name: prepare(scenario, overrides=[f"training.framework={name}"])[0].plan.recompute.modules
        for name in ("torchtitan", "megatron_core")
    }
    assert modules == {"torchtitan": ("per_op",), "megatron_core": ("core_attn",)}
