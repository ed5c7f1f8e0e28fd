"""Recomputation in other hands' words: order, negation, tensors on the host; facts of public models; targets of T5."""

from __future__ import annotations

from typing import Any

import pytest
from measured_rows import plan_of, row

from windtunnel.specs.model import ModelSpec
from windtunnel.specs.scenario import Scenario
from windtunnel.validation.rows.read_row import read


def scenario(**changes: Any) -> Scenario:
    case = read(row(**changes))
    assert case.scenario is not None, case.reason
    return case.scenario


NONE = [
    "no {act}",
    "{act}: none",
    "{act} off",
    "without {act}",
    "{act} disabled",
    "{act} = false",
    "none ({act} not used)",
]
FULL = ["full {act}", "{act}: full", "{act} (full)", "{act} of every layer", "{act}, all blocks", "full, not selective"]
SELECTIVE = [
    "selective {act}",
    "{act}, selective",
    "{act}: selective (core attention)",
    "selective (attention core) {act}",
]
WORDS = ["recomputation", "activation checkpointing", "activation recomputation", "gradient checkpointing", "recompute"]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(("policy", "phrases"), [("none", NONE), ("full", FULL), ("selective", SELECTIVE)])
def test_the_order_of_words_does_not_change_a_recomputation(words: str, policy: str, phrases: list[str]) -> None:
    for phrase in phrases:
        text = phrase.format(act=words)
        for spelled in (text, text.upper(), text.replace("-", "_")):
            found = scenario(recompute=spelled).plan.recompute
            assert (found.policy, found.modules) == (policy, ()), spelled


@pytest.mark.parametrize("text", ["remat policy: house_blend", "rematerialisation of an unknown policy", "custom"])
def test_a_policy_that_is_not_known_is_not_full(text: str) -> None:
    case = read(row(recompute=text))
    assert case.scenario is not None and case.scenario.plan.recompute.policy != "full"
    assert "recompute" in case.assumed_fields


def test_rematerialisation_that_is_not_stated_is_full_only_where_the_rest_does_not_fit() -> None:
    tpu = {"device": "TPU v5p", "device_canonical": None, "count": 256, "per_node": 4, "intra_node": "ICI"}
    assert plan_of(scenario(framework="MaxText", hardware=tpu, recompute=None)).recompute.policy == "full"
    axes = {"parallel__tp": 1, "parallel__pp": 1, "parallel__dp": 256, "micro_batch": None, "recompute": None}
    for batch, policy in ((256, "modules"), (65536, "full")):
        stated = scenario(framework="Pax", hardware=tpu, global_batch=batch, **axes)
        assert "recompute" not in stated.plan.model_fields_set
        assert plan_of(stated).recompute.policy == policy


@pytest.mark.parametrize(
    ("recompute", "share"),
    [
        ("full, activation offload", 1.0),
        ("no recomputation, no offload", 0.0),
        ("save query_proj, key_proj, value_proj; offload out_proj", 0.25),
        ("none, offload query_proj", 0.125),
        ({"policy": "custom", "tensors": {"query_proj": "offload", "out_proj": "device"}}, 0.5),
        ({"policy": "custom", "tensors": {"query_proj": "offload", "key_proj": "offload"}}, 1.0),
    ],
)
def test_one_tensor_on_the_host_is_not_all(recompute: Any, share: float) -> None:
    assert scenario(recompute=recompute).plan.offload.activations == share


@pytest.mark.parametrize(
    ("framework", "device", "attention"),
    [
        ("PyTorch 1.13", "A100-SXM-80GB", "unfused"),
        ("fairseq", "A100-SXM-80GB", "unfused"),
        ("DeepSpeed 0.14", "V100-SXM2-32GB", "unfused"),
        ("PyTorch 2.4", "A100-SXM-80GB", None),
    ],
)
def test_without_a_fused_library_attention_is_not_fused(framework: str, device: str, attention: str | None) -> None:
    place = {"hardware__device": device, "hardware__device_canonical": device}
    training = scenario(attention=None, precision="fp16", framework=framework, **place).training
    assert training is not None
    assert training.attention == attention or (attention is None and training.attention != "unfused")


def test_facts_of_the_public_model_beat_flags_that_a_script_lacks() -> None:
    case = read(row(model__gated_mlp=False, model__vocab=50257))
    assert case.scenario is not None and isinstance(case.scenario.model, ModelSpec)
    assert case.scenario.model.gated_mlp and case.scenario.model.vocab_size == 128256
    assert {"model.gated_mlp", "model.vocab_size"} <= {field for field, _, _ in case.assumed}
    own = scenario(model__name="house model", model__gated_mlp=False, model__vocab=50257).model
    assert isinstance(own, ModelSpec) and not own.gated_mlp and own.vocab_size == 50257
    wider = scenario(model__ffn=16384, model__gated_mlp=False).model
    assert isinstance(wider, ModelSpec) and not wider.gated_mlp


@pytest.mark.parametrize(
    "framework", ["T5X/JAX", "NVIDIA NeMo Framework Release 24.05", "Megatron-LM core 0.9", "DeepSpeed"]
)
@pytest.mark.parametrize(("inputs", "targets"), [(512, 128), (2048, 512)])
def test_encoder_decoders_train_on_short_targets_in_every_framework(framework: str, inputs: int, targets: int) -> None:
    model = {"name": "T5-11B", "type": "encoder-decoder", "layers": 48, "encoder_layers": 24, "decoder_layers": 24}
    sizes = {"hidden": 1024, "ffn": 65536, "heads": 128, "head_dim": 128, "vocab": 32128}
    axes = {"parallel__tp": 8, "parallel__pp": 1, "parallel__dp": 8}
    training = scenario(framework=framework, model={**model, **sizes}, seq_len=inputs, **axes).training
    assert training is not None and training.decoder_seq_len == targets
    stated = scenario(
        framework=framework, model={**model, **sizes}, seq_len=inputs, extra={"decoder_seq_len": 100}, **axes
    ).training
    assert stated is not None and stated.decoder_seq_len == 100
