"""What a mixture adds to a step: exchanges, launches of local experts, graphs, fused experts, predicted tokens."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.graph import PREDICTED, Batch, Kind, build
from windtunnel.parallel.expert import distinct_destinations
from windtunnel.program.segment import ASIDE, Launch, Segment
from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import step_time
from windtunnel.training.step_setup import PreparedStep
from windtunnel.validation.rows.read_row import read

QWEN, DEEPSEEK = "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3"
B200 = "b200-sxm-180gb"
"""Its kernels are short enough for launches to matter."""


def _step(
    model: str | dict[str, Any] = QWEN,
    *,
    nodes: int = 1,
    device: str = "h100-sxm-80gb",
    training: Any = None,
    **plan: Any,
) -> PreparedStep:
    scenario = {
        "model": model,
        "cluster": {"device": device, "nodes": nodes, "devices_per_node": 8},
        "training": {
            "seq_len": 4096,
            "global_batch": 64 * nodes,
            "precision": "bf16",
            "framework": "megatron_bridge",
            **(training or {}),
        },
        "plan": {"mbs": 1, "zero": 1, **plan},
    }
    return prepare(scenario)[0]


def _segment(x: PreparedStep, name: str = "E", direction: str = "F") -> Segment:
    return next(s for s in x.stages.segments if (s.name, s.direction) == (name, direction))


def _launch(x: PreparedStep, name: str, direction: str = "F") -> Launch:
    return next(launch for launch in _segment(x, direction=direction).launches if launch.name == name)


def test_only_a_dispatcher_that_knows_nodes_sends_one_copy_a_node() -> None:
    plain = _launch(_step(nodes=4, ep=32, training={"moe_dispatcher": "alltoall"}), "ep_dispatch")
    fused = _launch(_step(nodes=4, ep=32, training={"moe_dispatcher": "deepep"}), "ep_dispatch")
    rows = 4096 * 8 * 2048 * 2
    assert plain.out_bytes == pytest.approx(rows * 24 / 32)  # every copy whose expert lies on the other three nodes
    copies = distinct_destinations(4, 8)
    assert fused.out_bytes == pytest.approx(rows * copies / 8 * 3 / 4, rel=0.01)


@pytest.mark.parametrize(("model", "topk", "hidden"), [("mistralai/Mixtral-8x7B-v0.1", 2, 4096), (QWEN, 8, 2048)])
def test_gathered_tokens_travel_whatever_they_chose(model: str, topk: int, hidden: int) -> None:
    """Megatron-Core's `MoEAllGatherTokenDispatcher`: every rank receives all tokens of the others, once each way."""
    sent = {}
    for dispatcher in ("alltoall", "allgather"):
        x = _step(model, ep=8, training={"moe_dispatcher": dispatcher})
        for name in ("ep_dispatch", "ep_combine"):
            for direction in "FB":
                sent[dispatcher, name, direction] = _launch(x, name, direction).up_bytes
    tokens = 4096 * hidden * 2
    for (dispatcher, *_), size in sent.items():
        expected = tokens * 7 if dispatcher == "allgather" else tokens * topk * 7 / 8
        assert size == pytest.approx(expected, rel=0.01)


def test_a_wide_gather_is_slower_than_the_exchange() -> None:
    plain, gathered = (
        _launch(_step(nodes=8, ep=64, training={"moe_dispatcher": name}), "ep_dispatch")
        for name in ("alltoall", "allgather")
    )
    assert gathered.up_bytes + gathered.out_bytes == pytest.approx(8 * (plain.up_bytes + plain.out_bytes), rel=0.02)
    one, two = (_step(ep=4, tp=2, etp=etp, training={"moe_dispatcher": "allgather"}) for etp in (1, 2))
    tokens = 4096 * 2048 * 2
    parts = [_launch(two, name).up_bytes for name in ("ep_dispatch", "etp_gather")]
    assert sum(parts) == pytest.approx(tokens / 2 * (4 * 2 - 1), rel=0.01)  # one gather over all eight ranks
    assert _launch(one, "ep_dispatch").up_bytes == pytest.approx(tokens / 2 * 3, rel=0.01)


def test_a_rank_that_holds_several_chosen_experts_gets_one_copy() -> None:
    plain = _launch(_step(ep=8, training={"moe_dispatcher": "alltoall"}), "ep_dispatch")
    fused = _launch(_step(ep=8, training={"moe_dispatcher": "hybridep"}), "ep_dispatch")
    assert fused.up_bytes / plain.up_bytes == pytest.approx(distinct_destinations(8, 8) / 8)


def test_every_local_expert_costs_launches() -> None:
    few, many = _segment(_step(nodes=8, ep=64)), _segment(_step(nodes=8, ep=8))
    kernels = [sum(x.kernels for x in s.launches if x.module == "moe") for s in (few, many)]
    assert kernels == [2 * 2, 2 * 16]  # two products of two and of sixteen experts


def test_without_graphs_a_small_mixture_waits_for_its_launches() -> None:
    times = {
        graphs: step_time(_step(ep=8, device=B200, training={"cuda_graphs": graphs}))
        for graphs in ("none", "moe", "layer", "full")
    }
    assert times["none"] > times["moe"] > times["layer"] > times["full"]
    assert times["none"] > 1.1 * times["full"]


def test_a_capacity_needs_no_read_and_its_layers_fit_into_graphs() -> None:
    model = catalog.model(QWEN).model_dump(exclude_none=True, exclude={"provenance"}) | {"capacity_factor": 1.0}
    layer, full = (
        [step_time(_step(m, ep=8, device=B200, training={"cuda_graphs": graphs})) for m in (QWEN, model)]
        for graphs in ("layer", "full")
    )
    assert layer[0] > 1.05 * full[0]
    assert layer[1] == pytest.approx(full[1], rel=0.01)


def _capacity(factor: float | None, *, padded: bool = True) -> dict[str, Any]:
    fields = catalog.model(QWEN).model_dump(exclude_none=True, exclude={"provenance"})
    return fields | ({"capacity_factor": factor, "moe_pad_expert_input_to_capacity": padded} if factor else {})


@pytest.mark.parametrize(("factor", "padded", "rows"), [(2.0, True, 2.0), (2.0, False, 1.0), (0.5, False, 0.5)])
def test_a_capacity_that_is_not_filled_up_adds_no_rows(factor: float, padded: bool, rows: float) -> None:
    """Work and traffic of the experts, over those of a mixture that drops nothing; padding of 2 is twice the work."""
    dropless, capped = _step(_capacity(None), ep=8), _step(_capacity(factor, padded=padded), ep=8)
    for name, figure in [("expert_fc1", "flop"), ("expert_fc2", "flop"), ("ep_dispatch", "out_bytes")]:
        expected = rows * getattr(_launch(dropless, name), figure)
        assert getattr(_launch(capped, name), figure) == pytest.approx(expected)


def test_sizes_of_experts_that_are_not_filled_up_are_read_back() -> None:
    reads = [
        step_time(_step(model, ep=8, device=B200, training={"cuda_graphs": "layer"}))
        for model in (_capacity(None), _capacity(1.0, padded=False), _capacity(1.0))
    ]
    assert reads[0] == pytest.approx(reads[1]) and reads[1] > 1.05 * reads[2]


@pytest.mark.parametrize(("factor", "padded", "busiest"), [(None, True, 3.0), (1.25, False, 1.25), (1.25, True, 1.0)])
def test_a_capacity_bounds_the_busiest_rank(factor: float | None, padded: bool, busiest: float) -> None:
    even, uneven = (
        _launch(_step(_capacity(factor, padded=padded), ep=8, training=load), "expert_fc1").flop
        for load in ({}, {"expert_load": {"imbalance": 3.0}})
    )
    assert uneven == pytest.approx(busiest * even)


def test_fused_experts_drop_the_activation_pass_and_casts() -> None:
    training = {"precision": "fp8", "cuda_graphs": "full", "moe_dispatcher": "hybridep"}
    apart, fused = (_step(ep=8, training={**training, "fused_experts": on}) for on in (False, True))
    assert _launch(fused, "expert_act").hbm_bytes == 0.0
    assert _launch(fused, "expert_act", "B").hbm_bytes == pytest.approx(
        0.4 * _launch(apart, "expert_act", "B").hbm_bytes
    )
    assert _launch(fused, "expert_fc2").kernels == 2  # one product and one cast of weights
    assert step_time(fused) < step_time(apart)


def test_overlapped_exchanges_leave_the_other_collectives_alone() -> None:
    x = _step(nodes=2, ep=8, tp=2, overlap={"moe_a2a": True})
    streams = {launch.name: launch.stream for launch in _segment(x).launches}
    assert streams["ep_dispatch"] == ASIDE
    assert streams["tp_gather_qkv"] != ASIDE


def test_predicted_tokens_add_a_layer_a_join_and_a_head() -> None:
    model = catalog.model(DEEPSEEK)
    plain = model.model_copy(update={"num_nextn_predict_layers": 0})
    with_it, without = (build(m, Batch.train(1, 4096)) for m in (model, plain))
    assert PREDICTED in with_it.blocks and PREDICTED not in without.blocks
    h, layer = model.hidden_size, with_it.blocks["E"]
    products = sum(op.m * op.n * op.k for op in layer.operators if op.kind in (Kind.GEMM, Kind.GROUPED_GEMM)) / 4096
    attention = without.attention_flop_per_token / model.num_hidden_layers
    added = 6 * (products + 2 * h * h + h * model.vocab_size) + attention
    assert with_it.model_flop_per_token - without.model_flop_per_token == pytest.approx(added, rel=1e-6)


def test_predicted_tokens_run_on_the_last_stage() -> None:
    spec = catalog.model(DEEPSEEK).model_dump(exclude_none=True, exclude={"provenance"})
    with_it, without = (
        _step({**spec, "num_nextn_predict_layers": n}, nodes=32, pp=8, ep=32).stages.seconds for n in (1, 0)
    )
    assert with_it[0, :-1] == pytest.approx(without[0, :-1])
    assert with_it[0, -1] > without[0, -1] + without[0, 0] / 10


def test_a_clamped_gate_costs_passes() -> None:
    model = catalog.model("openai/gpt-oss-20b")
    smooth = model.model_copy(update={"hidden_act": "silu"})
    clamped, plain = (
        next(op for op in build(m, Batch.train(1, 4096)).blocks["E"].operators if op.name == "expert_act")
        for m in (model, smooth)
    )
    routed = 4096 * model.num_experts_per_tok
    assert clamped.forward_bytes - plain.forward_bytes == pytest.approx(8 * 2 * routed * model.moe_intermediate_size)


def _row(**changes: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "family": "megatron-bridge",
        "phase": "pretrain",
        "seq_len": 4096,
        "global_batch": 512,
        "micro_batch": 1,
        "precision": "mxfp8",
        "framework": "Megatron-Bridge, NeMo 26.04 container",
        "metric": "step_time",
        "value": 1.0,
        "unit": "s",
        "recompute": None,
        "hardware": {"device": "B200", "count": 8, "per_node": 8},
        "parallel": {"tp": 1, "pp": 1, "dp": 8, "cp": 1, "ep": 8},
        "model": {
            "name": "Qwen3-30B-A3B",
            "type": "moe",
            "layers": 48,
            "hidden": 2048,
            "ffn": 6144,
            "heads": 32,
            "kv_heads": 4,
            "head_dim": 128,
            "vocab": 151936,
            "experts": 128,
            "topk": 8,
            "moe_ffn": 768,
        },
        **changes,
    }


def _training(row: dict[str, Any]) -> Any:
    scenario = read(row).scenario
    assert scenario is not None and scenario.training is not None
    return scenario


@pytest.mark.parametrize(
    ("scope", "graphs"),
    [
        (["attn", "moe_router", "moe_preprocess"], "layer"),
        (["moe_router", "moe_preprocess"], "moe"),
        (["attn"], "attention"),
    ],
)
def test_graph_scopes_are_read(scope: list[str], graphs: str) -> None:
    extra = {"cuda_graph_impl": "transformer_engine", "cuda_graph_scope": scope}
    assert _training(_row(recompute="none", extra=extra)).training.cuda_graphs == graphs


def test_recipes_of_a_release_fill_what_its_table_leaves_out() -> None:
    dropping = _training(_row(framework="Megatron-Bridge, NeMo 25.09 container"))
    assert dropping.training.cuda_graphs is None
    assert (prepare(dropping)[0].plan.cuda_graphs, dropping.model.capacity_factor) == ("full", 1.0)
    later = _training(_row(framework="Megatron-Bridge, NeMo 26.08 container"))
    assert prepare(later)[0].plan.fused_experts and later.model.capacity_factor is None
    assert not prepare(_training(_row()))[0].plan.fused_experts


def test_nemo_scripts_are_not_those_of_megatron_bridge() -> None:
    model = {
        "name": "DeepSeek-V3",
        "type": "moe",
        "layers": 61,
        "hidden": 7168,
        "ffn": 18432,
        "heads": 128,
        "vocab": 129280,
        "experts": 256,
        "topk": 8,
        "moe_ffn": 2048,
        "shared_experts": 1,
    }
    parallel = {"tp": 1, "pp": 16, "dp": 16, "cp": 1, "ep": 8}
    hardware = {"device": "B200", "count": 256, "per_node": 8}
    shape = {"model": model, "parallel": parallel, "hardware": hardware, "global_batch": 2048}
    assert _training(_row(**shape)).model.capacity_factor is None
    script = _training(_row(**shape, framework="NeMo/Megatron-Core", precision="bf16")).model
    assert (script.capacity_factor, script.num_nextn_predict_layers) == (1.0, 1)
