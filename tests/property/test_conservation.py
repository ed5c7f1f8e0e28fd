"""Nothing is lost or made up when a model is cut: parameters and FLOPs are conserved up to declared replication."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windtunnel import graph
from windtunnel.api import prepare
from windtunnel.graph import Batch, Kind, Operator, forward_flop
from windtunnel.parallel.resolve import ResolvedPlan
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.workload import TrainingSpec
from windtunnel.training.stage_costs.local_block import local_block

pytestmark = pytest.mark.property

DENSE = ModelSpec(
    name="dense",
    hidden_size=512,
    num_hidden_layers=8,
    vocab_size=1024,
    num_attention_heads=16,
    num_key_value_heads=4,
    intermediate_size=1536,
)
GPT = ModelSpec(
    name="gpt",
    hidden_size=512,
    num_hidden_layers=8,
    vocab_size=1024,
    num_attention_heads=16,
    intermediate_size=2048,
    gated_mlp=False,
    norm="layernorm",
    attention_bias=True,
    mlp_bias=True,
    position_embedding="learned",
    max_position_embeddings=4096,
    tie_word_embeddings=True,
)
MOE = ModelSpec(
    name="moe",
    family="moe",
    hidden_size=512,
    num_hidden_layers=8,
    vocab_size=1024,
    num_attention_heads=16,
    num_key_value_heads=4,
    intermediate_size=1536,
    num_experts=16,
    num_experts_per_tok=2,
    moe_intermediate_size=256,
    shared_expert_intermediate_size=256,
    first_k_dense_replace=1,
)
MLA = ModelSpec(
    name="mla",
    family="mla_moe",
    hidden_size=512,
    num_hidden_layers=8,
    vocab_size=1024,
    num_attention_heads=16,
    intermediate_size=1536,
    num_experts=16,
    num_experts_per_tok=2,
    moe_intermediate_size=256,
    q_lora_rank=96,
    kv_lora_rank=64,
    qk_nope_head_dim=32,
    qk_rope_head_dim=16,
    v_head_dim=32,
)
MODELS = {m.name: m for m in (DENSE, GPT, MOE, MLA)}
SEQ = 256
PRODUCTS = (Kind.GEMM, Kind.GROUPED_GEMM, Kind.BATCHED_GEMM, Kind.ATTENTION, Kind.SCAN)
REPLICATED = ("full", "sequence", "features")
"""Rules whose weights every rank of the tensor axis holds."""


def scenario(model: ModelSpec, plan: dict[str, Any], *, nodes: int = 8, **training: Any) -> dict[str, Any]:
    """A scenario whose batch suits any plan on its 64 devices."""
    return {
        "model": model.model_dump(),
        "cluster": {"device": "a100-sxm-80gb", "nodes": nodes, "devices_per_node": 8},
        "training": {"seq_len": SEQ, "global_batch": 512, "padded_vocab": False, **training},
        "plan": plan,
    }


@st.composite
def plans(draw: st.DrawFn, model: ModelSpec) -> dict[str, Any]:
    """Axis sizes that divide 64 devices and the model."""
    power = st.sampled_from([1, 2, 4])
    tp, cp, pp = draw(power), draw(power), draw(power)
    plan: dict[str, Any] = {
        "tp": tp,
        "cp": cp,
        "pp": pp,
        "sp": draw(st.booleans()),
        "mbs": draw(st.sampled_from([1, 2])),
    }
    plan["cp_kind"] = draw(st.sampled_from(["ring", "all_to_all", "all_gather"]))
    if pp > 1:
        plan["vpp"] = draw(st.sampled_from([1, 2]))
    if model.num_experts:
        etp = draw(st.sampled_from([e for e in (1, 2, 4) if tp % e == 0]))
        replicas = 64 // pp
        plan |= {"etp": etp, "ep": draw(st.sampled_from([e for e in (1, 2, 4, 8, 16) if replicas % (e * etp) == 0]))}
    return plan


def pairs(model: ModelSpec, plan: ResolvedPlan, *, unfused: bool = False) -> list[tuple[Operator, Operator]]:
    """Each unsharded operator beside one rank's share of it."""
    training = TrainingSpec(seq_len=SEQ, global_batch=512)
    batch = Batch.train(plan.mbs, SEQ)
    g = graph.build(model, batch, unfused_attention=unfused)
    found = []
    for block in (*g.blocks.values(), g.embedding, g.head):
        local = {op.name: op for op in local_block(block, model, training, plan, batch.tokens)}
        found += [(op, local[op.name]) for op in block.operators]
    return found


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=30)
@given(data=st.data())
def test_flops_over_all_ranks_are_those_of_the_whole(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    plan = prepare(scenario(model, data.draw(plans(model))))[0].plan
    for whole, local in pairs(model, plan, unfused=plan.cp == 1 and data.draw(st.booleans())):
        if whole.kind not in PRODUCTS:
            continue
        ranks = plan.tp * plan.cp
        copies = 1.0
        if whole.rule == "full" or (whole.rule == "sequence" and not plan.sp):
            copies = plan.tp  # each rank of the tensor axis does the same
        assert forward_flop(local) * ranks == pytest.approx(forward_flop(whole) * copies, rel=1e-12), whole.name


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=30)
@given(data=st.data())
def test_parameters_over_all_shards_are_those_of_the_whole(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    plan = prepare(scenario(model, data.draw(plans(model))))[0].plan
    for whole, local in pairs(model, plan):
        shards = 1 if whole.rule in REPLICATED else plan.tp
        if whole.kind == Kind.GROUPED_GEMM:
            shards = plan.ep * plan.etp
        assert local.params * shards == pytest.approx(whole.params, rel=1e-12), whole.name


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=30)
@given(data=st.data())
def test_pipeline_stages_hold_each_layer_once(name: str, data: st.DataObject) -> None:
    model = MODELS[name]
    drawn = data.draw(plans(model))
    prepared, _ = prepare(scenario(model, drawn))
    flat, _ = prepare(scenario(model, drawn | {"pp": 1, "vpp": 1}))
    assert sum(prepared.plan.stage_layers) == model.num_hidden_layers
    copy = 0.0
    if model.tie_word_embeddings and prepared.plan.pp > 1:
        copy = model.vocab_size * model.hidden_size / prepared.plan.tp  # the last stage keeps its own
    assert prepared.stages.dense_params.sum() - copy == pytest.approx(flat.stages.dense_params.sum(), rel=1e-12)
    assert prepared.stages.expert_params.sum() == pytest.approx(flat.stages.expert_params.sum(), rel=1e-12)
    assert prepared.stages.hardware_flop == pytest.approx(flat.stages.hardware_flop, rel=1e-12)


@settings(max_examples=20)
@given(data=st.data())
def test_work_of_a_dense_replica_does_not_depend_on_the_plan(data: st.DataObject) -> None:
    drawn = data.draw(plans(DENSE)) | {"mbs": 1}
    prepared, _ = prepare(scenario(DENSE, drawn))
    alone, _ = prepare(scenario(DENSE, {"mbs": 1}))
    assert prepared.stages.hardware_flop == pytest.approx(alone.stages.hardware_flop, rel=1e-12)


@settings(max_examples=20)
@given(data=st.data())
def test_recomputing_adds_exactly_one_forward_of_the_layers(data: st.DataObject) -> None:
    drawn = data.draw(plans(DENSE)) | {"mbs": 1}
    none, _ = prepare(scenario(DENSE, drawn, framework="megatron_core"))
    full, _ = prepare(scenario(DENSE, drawn | {"recompute": "full"}, framework="megatron_core"))
    g = none.stages.graph
    forward = sum(forward_flop(op) for kind in g.depth for op in g.blocks[kind].operators)
    assert full.stages.hardware_flop - none.stages.hardware_flop == pytest.approx(forward, rel=1e-9)
    for kept_full, kept_none in zip(full.stages.kept_bytes, none.stages.kept_bytes, strict=True):
        assert sum(kept_full.values()) < sum(kept_none.values())


@settings(max_examples=15)
@given(data=st.data(), zero=st.sampled_from([0, 1, 2, 3]))
def test_higher_zero_stages_never_keep_more(data: st.DataObject, zero: int) -> None:
    from windtunnel.training.simulate_step import memory_of

    drawn = data.draw(plans(DENSE)) | {"zero": zero}
    here = memory_of(prepare(scenario(DENSE, drawn, framework="megatron_core"))[0])
    if zero < 3:
        above = memory_of(prepare(scenario(DENSE, drawn | {"zero": zero + 1}, framework="megatron_core"))[0])
        for name in ("weights", "gradients", "optimizer"):
            assert above.at_peak.get(name, 0.0) <= here.at_peak.get(name, 0.0) * (1 + 1e-12)
    else:
        assert here.peak_allocated_bytes > 0
