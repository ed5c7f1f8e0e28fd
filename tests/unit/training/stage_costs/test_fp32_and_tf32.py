"""Training in fp32 and tf32: four bytes wherever 16-bit training has two, and no second copy of the weights."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from windtunnel import catalog, graph
from windtunnel.api import explain
from windtunnel.api import plan as best_plan
from windtunnel.cost.attention import AttentionWork, attention_time_s
from windtunnel.cost.coefficients import coefficients
from windtunnel.cost.framework_defaults import behaviour
from windtunnel.graph import Batch, Kind
from windtunnel.training.data_parallel.comm_costs import GroupComm
from windtunnel.training.memory.static_memory import static_memory
from windtunnel.training.predict import prepare, simulate_training
from windtunnel.training.step_setup import PreparedStep, options_of

LAYOUTS: dict[str, dict[str, Any]] = {
    "data": {"zero": 1},
    "sharded": {"zero": 3},
    "tensor": {"tp": 8},
    "sequence": {"tp": 2, "cp": 2, "cp_kind": "ring", "zero": 1},
    "heads": {"cp": 4, "cp_kind": "all_to_all", "zero": 1},
    "stages": {"pp": 4, "tp": 2},
}
MIXTURE = {"model": "deepseek-ai/DeepSeek-V2-Lite", "plan": {"ep": 8, "zero": 1}}


def scenario(precision: str, framework: str = "megatron_core", **changes: Any) -> dict[str, Any]:
    return {
        "model": "meta-llama/Llama-3.2-1B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {
            "seq_len": 2048,
            "global_batch": 16,
            "precision": precision,
            "framework": framework,
            "attention": "sdpa",
        },
        "plan": {"mbs": 1},
    } | changes


def prepared(precision: str, **changes: Any) -> PreparedStep:
    return prepare(scenario(precision, **changes))[0]


def static_per_weight(x: PreparedStep) -> dict[str, float]:
    static = static_memory(x.stages, x.plan, x.training, x.behaviour, x.schedule.placement[:, 0].astype("int64"))
    weights = (x.stages.dense_params + x.stages.expert_params).sum()
    late = float(static.late_gradient_bytes.sum() / weights)
    found = {kind: float(size.sum() / weights) for kind, size in static.by_kind.items()}
    return {
        kind: found.get(kind, 0.0) + (late if kind == "gradients" else 0.0)
        for kind in ("weights", "gradients", "optimizer")
    }


def moved(x: PreparedStep) -> dict[str, float]:
    """Bytes on links by kind of collective, over all segments; and of stages' messages."""
    out: defaultdict[str, float] = defaultdict(float)
    for segment in x.stages.segments:
        for launch in segment.launches:
            if launch.operation and "loss" not in launch.name:
                out[launch.tag] += launch.up_bytes + launch.out_bytes
    out["stages"] = x.stages.p2p_bytes
    return out


@pytest.mark.parametrize(
    "model", ["meta-llama/Llama-3.2-1B", "deepseek-ai/DeepSeek-V3", "nvidia/Nemotron-H-8B-Base-8K"]
)
@pytest.mark.parametrize("style", ["fused", "megatron_2021"])
def test_tensors_of_a_layer_are_twice_as_wide_unless_they_were_fp32(model: str, style: str) -> None:
    batch, spec = Batch.train(1, 2048), catalog.model(model)
    narrow = graph.build(spec, batch, style=graph.STYLES[style])
    wide = graph.build(spec, batch, style=graph.STYLES[style], element_bytes=4.0)
    assert wide.model_flop_per_token == narrow.model_flop_per_token
    for kind, block in narrow.blocks.items():
        for before, after in zip(block.tensors, wide.blocks[kind].tensors, strict=True):
            assert after.elements == before.elements
            assert after.element_bytes == (4.0 if before.element_bytes == 2.0 else before.element_bytes)
        for op, other in zip(block.operators, wide.blocks[kind].operators, strict=True):
            assert other.params == op.params
            fp32 = op.fp32_forward_bytes
            assert other.forward_bytes - fp32 == pytest.approx(2 * (op.forward_bytes - fp32))
            assert (op.name in ("routing",)) == (op.kind == Kind.POINTWISE and other.forward_bytes == op.forward_bytes)


def test_a_written_out_norm_needs_no_casts() -> None:
    spec, batch = catalog.model("meta-llama/Llama-3.2-1B"), Batch.train(1, 2048)
    sizes = {}
    for width in (2.0, 4.0):
        block = graph.build(spec, batch, style=graph.STYLES["eager"], element_bytes=width).blocks["D"]
        norm = next(op for op in block.operators if op.name == "mlp_norm")
        sizes[width] = norm.forward_bytes / (spec.hidden_size * 2048)
    residual = 3.0
    assert sizes[2.0] == pytest.approx(36 + 2 * residual)  # cast 6, square 8, mean 4, scale 8, cast 6, weight 4
    assert sizes[4.0] == pytest.approx(28 + 4 * residual)  # square 8, mean 4, scale 8, weight 8


@pytest.mark.parametrize("framework", ["megatron_core", "nemo", "torchtitan", "fsdp1", "torchtune", "deepspeed", "jax"])
def test_adam_takes_16_bytes_a_weight(framework: str) -> None:
    found = static_per_weight(prepared("fp32", framework=framework, plan={"zero": 0}))
    assert found == pytest.approx({"weights": 4.0, "gradients": 4.0, "optimizer": 8.0})


def test_what_16_bit_training_keeps_is_composed_otherwise() -> None:
    megatron = static_per_weight(prepared("bf16", plan={"zero": 0}))
    assert megatron == pytest.approx({"weights": 2.0, "gradients": 4.0, "optimizer": 12.0})
    sharded = static_per_weight(prepared("bf16", framework="torchtitan", plan={"zero": 0}))
    assert sum(sharded.values()) == pytest.approx(16.0)


def test_activations_are_twice_as_large() -> None:
    narrow, wide = (prepared(p, plan={"zero": 0, "tp": 2}) for p in ("bf16", "fp32"))
    kept = [x.stages.kept_bytes[0]["activations"] for x in (narrow, wide)]
    assert kept[1] / kept[0] == pytest.approx(2.0, rel=0.01)  # statistics of attention are fp32 in both


@pytest.mark.parametrize("layout", LAYOUTS)
def test_messages_between_ranks_are_twice_as_large(layout: str) -> None:
    narrow, wide = (moved(prepared(p, plan={"mbs": 1} | LAYOUTS[layout])) for p in ("bf16", "tf32"))
    assert {k for k, v in narrow.items() if v} == {k for k, v in wide.items() if v}
    for kind, size in narrow.items():
        assert wide[kind] == pytest.approx(2 * size, rel=1e-6), kind


def test_experts_receive_twice_the_bytes() -> None:
    narrow, wide = (moved(prepared(p, **MIXTURE)) for p in ("bf16", "fp32"))
    assert narrow["ep"] > 0
    assert wide["ep"] == pytest.approx(2 * narrow["ep"])


@pytest.mark.parametrize(("framework", "reduced"), [("megatron_core", 1.0), ("nemo", 2.0)])
def test_gathers_of_weights_double_and_reductions_are_in_fp32(framework: str, reduced: float) -> None:
    found = []
    for precision in ("bf16", "fp32"):
        x = prepared(precision, framework=framework, plan={"zero": 1})
        options = options_of(x.training, x.plan, x.behaviour, x.coefficients, ())
        traffic = GroupComm(x.stages, x.plan, x.cluster, x.training, x.behaviour, options)
        found.append([getattr(traffic, name)(1.0).scale_up_bytes.sum() for name in ("gather", "reduce")])
    (gather, reduce), (wide_gather, wide_reduce) = found
    assert wide_gather == pytest.approx(2 * gather)
    assert wide_reduce == pytest.approx(reduced * reduce)


def test_fp32_is_slower_than_tf32_and_tf32_than_bf16() -> None:
    seconds = [simulate_training(scenario(p), sensitivities=False).step_time_s for p in ("bf16", "tf32", "fp32")]
    assert seconds[0] < 0.5 * seconds[1] < 0.5 * seconds[2]


@pytest.mark.parametrize(
    ("framework", "kernel"), [("megatron_core", "unfused"), ("torchtitan", "sdpa"), ("fsdp1", "sdpa")]
)
def test_kernels_that_take_16_bits_alone_are_not_chosen(framework: str, kernel: str) -> None:
    assert behaviour(framework).in_precision("fp32").attention == kernel
    assert behaviour(framework).in_precision("bf16") is behaviour(framework)


@pytest.mark.parametrize(("device", "rate"), [("a100-sxm-80gb", 156e12 / 3), ("v100-sxm-32gb", 15.7e12)])
def test_the_fp32_kernel_runs_on_three_tf32_products_or_on_fp32_cores(device: str, rate: float) -> None:
    spec = catalog.device(device)
    chosen = coefficients("generic", spec)
    sizes = {"pairs": 1e8, "heads": 32.0, "d_qk": 128.0, "d_v": 128.0, "seq_len": 2048.0}
    shape = {name: np.asarray(value) for name, value in sizes.items()}
    half, full = (
        attention_time_s(spec, chosen, AttentionWork(**shape, kernel="sdpa", backward=False, number_format=f))
        for f in ("bf16", "fp32")
    )
    floor = chosen.attention_floor_s
    assert (full - floor) / (half - floor) == pytest.approx(spec.peak("bf16") / rate)


def test_nothing_is_said_to_count_as_two_bytes() -> None:
    warnings = simulate_training(scenario("fp32"), sensitivities=False).warnings
    assert not [w for w in warnings if "precision" in w]
    flash = scenario("tf32")
    flash["training"] |= {"attention": "flash2", "master_weights": "bf16"}
    said = " ".join(simulate_training(flash, sensitivities=False).warnings)
    assert "flash2 has no fp32 kernel" in said
    assert "master_weights bf16 has no effect" in said


def test_the_planner_finds_the_best_fp32_plan_of_those_it_can_enumerate() -> None:
    space = {"tp": [1, 2, 4, 8], "pp": [1, 2], "zero": [1, 3], "mbs": [1, 2], "recompute": ["none", "full"]}
    fixed = scenario("fp32", plan={})
    found = best_plan(fixed | {"search": {"space": space}})
    assert found.best is not None
    times = []
    for tp in space["tp"]:
        for pp in space["pp"]:
            for zero in space["zero"]:
                for mbs in space["mbs"]:
                    for policy in space["recompute"]:
                        dp = 8 // (tp * pp) if 8 % (tp * pp) == 0 and tp * pp <= 8 else 0
                        if not dp or 16 % (dp * int(mbs)):
                            continue
                        own = {"tp": tp, "pp": pp, "zero": zero, "mbs": mbs, "recompute": policy}
                        run = simulate_training(scenario("fp32", plan=own), sensitivities=False)
                        if run.memory.peak_reserved_bytes <= run.memory.capacity_bytes:
                            times.append(run.step_time_s)
    assert found.best.step_time_s <= min(times) * (1 + 1e-12)


def test_explain_names_the_units_that_fused_attention_runs_on() -> None:
    chain = explain(scenario("fp32")).chain
    assert chain is not None
    said = {t.sheet.name for t in chain.terms if t.sheet is not None and t.name.startswith("attention forward")}
    assert said == {"tf32 peak / 3 (split operands)"}
