"""What low-rank adapters and a quantised base cost in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from windtunnel.graph import Tensor
from windtunnel.graph.adapters import with_adapters
from windtunnel.training.predict import prepare
from windtunnel.training.simulate_step import memory_of


def moved(**lora: Any) -> dict[str, float]:
    """Bytes of one layer's products by direction."""
    scenario = {
        "model": "meta-llama/Llama-3.2-3B",
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
        "training": {"seq_len": 4096, "global_batch": 2, "framework": "torchtune", "phase": "lora", "lora": lora},
        "plan": {"mbs": 2},
    }
    built = prepare(scenario)[0].stages
    return {
        d: sum(
            x.hbm_bytes
            for s in built.segments
            if s.direction == d and s.name not in ("embedding", "head")
            for x in s.launches
            if x.kind == "gemm"
        )
        for d in "FB"
    }


def test_adapters_move_their_inputs_outputs_and_gradients() -> None:
    none, one = moved(targets=["proj"]), moved(targets=["proj", "fc2"])
    tokens, n, k = 2 * 4096.0, 3072.0, 8192.0
    assert one["F"] - none["F"] == pytest.approx(2 * tokens * (k + 4 * n))
    assert one["B"] - none["B"] == pytest.approx(2 * tokens * (4 * n + 5 * k))


def test_a_four_bit_base_is_unpacked_before_each_use() -> None:
    plain, quantised = moved(), moved(quantized_base=True)
    weights = 3072.0 * (3072 + 2 * 1024 + 3072 + 3 * 8192)
    for direction in "FB":
        assert quantised[direction] - plain[direction] == pytest.approx(2.56 * weights, rel=1e-6)


def built(framework: str = "transformers", precision: str = "bf16", **lora: Any) -> Any:
    """One prepared step of Llama-3.1-8B with adapters."""
    scenario = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "rtx-4090", "nodes": 1, "devices_per_node": 1},
        "training": {
            "seq_len": 1024,
            "global_batch": 1,
            "framework": framework,
            "precision": precision,
            "phase": "lora",
            "lora": lora,
        },
        "plan": {"mbs": 1, "zero": 0, "recompute": {"policy": "none"}},
    }
    return prepare(scenario)[0]


def trained(**lora: Any) -> float:
    """Trained parameters."""
    stages = built(**lora).stages
    return float(stages.trainable_share * stages.dense_params.sum())


EVERY = ["q", "k", "v", "proj", "gate", "up", "fc2"]


def test_trained_parameters_of_adapters() -> None:
    """Rank 16 beside every linear layer of Llama-3-8B trains 41,943,040 weights, as PEFT prints."""
    assert trained(rank=16, targets=EVERY) == pytest.approx(41_943_040)
    assert trained(rank=16, targets=["q", "v"]) == pytest.approx(32 * 16 * (4096 * 2 + 4096 + 1024))


def test_one_adapter_over_a_joint_product_shares_its_first_matrix() -> None:
    apart, joint = trained(rank=8, targets=["q", "k", "v"]), trained(rank=8, targets=["qkv"])
    assert apart - joint == pytest.approx(32 * 8 * 2 * 4096)


def test_magnitudes_are_one_for_each_output() -> None:
    plain, dora = trained(rank=8, targets=["proj"]), trained(rank=8, targets=["proj"], dora=True)
    assert dora - plain == pytest.approx(32 * 4096)


def test_ends_that_are_trained_whole() -> None:
    head = trained(rank=8, targets=["q"], trained=["head"]) - trained(rank=8, targets=["q"])
    assert head == pytest.approx(128256 * 4096, rel=0.001)
    frozen, whole = (
        sum(x.flop for s in built(targets=["q"], trained=ends).stages.segments if s.name == "head" for x in s.launches)
        for ends in ([], ["head"])
    )
    assert whole == pytest.approx(1.5 * frozen, rel=0.01)


def kept(**lora: Any) -> float:
    """Bytes that layers keep for backward."""
    return float(sum(built(**lora).stages.kept_bytes[0].values()))


def test_dropout_and_casts_keep_an_input_of_their_own() -> None:
    tokens, layers = 1024.0, 32.0
    masks = kept(targets=["q", "k"], dropout=0.1) - kept(targets=["q", "k"])
    assert masks == pytest.approx(layers * 2 * tokens * 4096)


def test_adapters_in_the_format_of_their_input_share_it() -> None:
    block = next(iter(built(targets=["q"]).stages.graph.blocks.values()))
    plain = replace(block, tensors=(Tensor("attn_norm_out", 7.0, "sequence", producer="norm", consumers=("qkv",)),))
    names = {
        cast: [t.name for t in with_adapters(plain, 8, ["q", "k"], dropout=False, cast=cast, dora=False).tensors]
        for cast in (False, True)
    }
    assert names == {False: ["attn_norm_out", "adapter_qkv_inner"], True: ["adapter_qkv_inner", "adapter_qkv_input"]}


def test_dora_keeps_both_branches() -> None:
    more = kept(targets=["proj"], dora=True) - kept(targets=["proj"])
    assert more == pytest.approx(32 * 2 * 2 * 1024.0 * 4096)


def test_dora_takes_norms_forward_and_costs_time() -> None:
    def seconds(**lora: Any) -> float:
        return float(built(targets=EVERY, **lora).stages.work.seconds.sum())

    plain, dora, quantised = seconds(), seconds(dora=True), seconds(dora=True, quantized_base="nf4")
    assert plain < dora < quantised


@pytest.mark.parametrize(
    ("base", "width"), [("nf4", 0.51587), ("nf4_single", 0.5625), ("int4", 0.51953), ("int8", 1.0), ("fp8", 1.0)]
)
def test_bytes_of_a_frozen_base(base: str, width: float) -> None:
    matrices = 32.0 * (4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    half, few = (memory_of(built(targets=["q"], quantized_base=b)).at_peak["weights"] for b in (False, base))
    assert half - few == pytest.approx(matrices * (2 - width), rel=1e-3)


def test_unknown_targets_are_refused() -> None:
    from windtunnel.errors import BadInput

    with pytest.raises(BadInput, match=r"lora\.targets"):
        built(targets=["queries"])


def test_a_reference_adds_a_forward_pass_and_without_adapters_a_copy_of_the_weights() -> None:
    def step(phase: str, reference: bool) -> Any:
        training = {"seq_len": 1024, "global_batch": 2, "framework": "transformers", "phase": phase}
        return prepare(
            {
                "model": "meta-llama/Llama-3.2-1B",
                "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
                "training": {**training, "reference_passes": int(reference)},
                "plan": {"mbs": 2, "zero": 0, "recompute": {"policy": "none"}},
            }
        )[0]

    for phase in ("lora", "sft"):
        without, beside = step(phase, False).stages, step(phase, True).stages
        assert beside.work.seconds[0].sum() == pytest.approx(2 * without.work.seconds[0].sum())
        assert beside.work.seconds[1].sum() == pytest.approx(without.work.seconds[1].sum())
        assert 1.2 < beside.hardware_flop / without.hardware_flop < 1.6
    weights = {
        (phase, reference): memory_of(step(phase, reference)).at_peak["weights"]
        for phase in ("lora", "sft")
        for reference in (False, True)
    }
    assert weights["lora", True] == weights["lora", False]
    assert weights["sft", True] - weights["sft", False] == pytest.approx(2 * 1_235_814_400, rel=0.01)


def test_rotations_of_inputs() -> None:
    """Blocks of 32 over 4,096 inputs have 4096 / 32 · 32 · 31 / 2 weights."""
    assert trained(rotation_block=32, targets=["q"]) == pytest.approx(32 * 4096 * 31 / 2)
    few, many = (
        sum(x.flop for s in built(targets=["q"], rotation_block=b).stages.segments for x in s.launches)
        for b in (32, 64)
    )
    assert many > few


@pytest.mark.parametrize(("device", "transposed"), [("h100-sxm-80gb", 2.0), ("b200-sxm-180gb", 0.0)])
def test_frozen_weights_in_the_format_of_the_products_are_not_cast(device: str, transposed: float) -> None:
    """Forward nothing is cast or unpacked; backward Hopper transposes each weight, Blackwell takes it as it lies."""

    def traffic(base: str | None, precision: str = "fp8") -> dict[str, float]:
        lora = {"targets": ["q"], "quantized_base": base or False}
        training = {"seq_len": 2048, "global_batch": 1, "framework": "nemo", "precision": precision}
        scenario = {
            "model": "meta-llama/Llama-3.1-8B",
            "cluster": {"device": device, "nodes": 1, "devices_per_node": 1},
            "training": {**training, "phase": "lora", "lora": lora},
            "plan": {"mbs": 1, "tp": 1, "recompute": "none"},
        }
        launches = [
            (s.direction, x)
            for s in prepare(scenario)[0].stages.segments
            if s.name not in ("embedding", "head")
            for x in s.launches
            if x.kind == "gemm"
        ]
        return {d: sum(x.hbm_bytes for direction, x in launches if direction == d) for d in "FB"}

    weights = 4096.0 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    wide, stored = traffic(None), traffic("fp8")
    assert stored["B"] - wide["B"] == pytest.approx(transposed * weights)
    assert 0.5 * weights < wide["F"] - stored["F"] < 4.0 * weights  # the cast reads two bytes and writes one or two
    unpacked = traffic("fp8", "bf16")["F"] - traffic(None, "bf16")["F"]
    assert unpacked == pytest.approx((1.0 + 2.0) * weights)


def test_adapters_without_a_phase_set_it_and_results_say_so() -> None:
    from windtunnel.specs.workload import TrainingSpec
    from windtunnel.training.predict import simulate_training

    stated = {"seq_len": 512, "global_batch": 8, "lora": {"rank": 8}}
    assert TrainingSpec.model_validate(stated).phase == "lora"
    assert TrainingSpec.model_validate(stated | {"phase": "sft"}).phase == "sft"
    scenario = {
        "model": "meta-llama/Llama-3.2-1B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": stated,
        "plan": {"zero": 0},
    }
    told = {a.field: a.value for a in simulate_training(scenario, sensitivities=False).assumed}
    assert told["training.phase"] == "lora"
