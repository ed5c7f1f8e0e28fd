"""What is served where a scenario states no format of weights: the checkpoint as it is released."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from windtunnel import api
from windtunnel.catalog.checkpoints import released_format
from windtunnel.importers.huggingface.quantization import stored_formats
from windtunnel.serving.deployment import prepare

GIB = 2**30


def _scenario(model: object, device: str, tp: int, **precision: str) -> dict[str, object]:
    traffic = {"rate_per_s": 2, "num_requests": 20, "input_tokens": 500, "output_tokens": 50}
    serving = {"engine": "vllm", "pools": [{"plan": {"tp": tp}}], "traffic": traffic}
    if precision:
        serving["precision"] = precision
    return {"model": model, "cluster": {"device": device, "nodes": 1, "devices_per_node": 8}, "serving": serving}


@pytest.mark.parametrize(
    ("model", "loaded_bytes"),
    # files of 60.8 and 12.8 GiB (arXiv 2508.10925, table 1), which Triton's kernels load with their scales twice
    # (llm-d-incubation/llm-d-planner docs/empirical-vllm-memory-results.md)
    [("openai/gpt-oss-120b", 64.38 * GIB), ("openai/gpt-oss-20b", 13.47 * GIB)],
)
def test_weights_take_the_memory_that_engines_log(model: str, loaded_bytes: float) -> None:
    d = prepare(_scenario(model, "h100-sxm-80gb", 1))
    assert d.instance.capacity.weights_bytes == pytest.approx(loaded_bytes, rel=0.02)


@pytest.mark.parametrize("model", ["deepseek-ai/DeepSeek-V3", "moonshotai/Kimi-K2-Instruct"])
def test_fp8_checkpoints_fit_the_node_that_their_authors_name(model: str) -> None:
    """Both model cards deploy on eight H200 (Kimi-K2: 16 H800 or H200 with 128k of context)."""
    d = prepare(_scenario(model, "h200-sxm-141gb", 8))
    assert d.instance.capacity.tokens > 0
    assert d.serving.precision.weights == "fp8_block"


def test_the_released_format_is_the_stated_one_and_is_named() -> None:
    open_run = api.simulate_serving(_scenario("openai/gpt-oss-20b", "h100-sxm-80gb", 1))
    stated = api.simulate_serving(_scenario("openai/gpt-oss-20b", "h100-sxm-80gb", 1, weights="bf16", experts="mxfp4"))
    assert open_run.ttft_s == stated.ttft_s and open_run.tpot_s == stated.tpot_s
    named = {a["field"]: a["value"] for a in open_run.assumed}
    assert (named["serving.precision.weights"], named["serving.precision.experts"]) == ("bf16", "mxfp4")
    assert not any(a["field"].startswith("serving.precision") for a in stated.assumed)


def test_sixteen_bits_are_named_too() -> None:
    run = api.simulate_serving(_scenario("meta-llama/Llama-3.1-8B", "h100-sxm-80gb", 1))
    assert ("serving.precision.weights", "bf16") in {(a["field"], a["value"]) for a in run.assumed}


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("Kimi-K2-Thinking", {"weights": "bf16", "experts": "w4a16"}),
        ("moonshotai/Kimi-K2-Instruct-0905", {"weights": "fp8_block"}),
        ("gpt-oss-20b-dequantized", {"weights": "bf16"}),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", {"weights": "bf16"}),
        ("DeepSeek-V3.1-Terminus", {"weights": "fp8_block"}),
        ("nvidia/DeepSeek-R1-0528-NVFP4", {"weights": "nvfp4"}),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", {"weights": "fp8"}),
    ],
)
def test_names_tell_the_format(name: str, formats: dict[str, str]) -> None:
    found = released_format(name)
    assert found is not None and found.formats == formats and found.why


def test_the_spelling_decides_before_the_catalogue_name() -> None:
    d = prepare(_scenario("gpt-oss-20b-dequantized", "h100-sxm-80gb", 1))
    assert (d.serving.precision.weights, d.serving.precision.experts) == ("bf16", None)


@pytest.mark.parametrize(
    ("own", "formats"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, {"weights": "fp8_block"}),
        ({"quant_method": "mxfp4"}, {"weights": "bf16", "experts": "mxfp4"}),
        ({"quant_method": "awq", "bits": 4}, {"weights": "w4a16"}),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, {"weights": "nvfp4"}),
        (
            {
                "quant_method": "compressed-tensors",
                "ignore": ["lm_head", "re:.*self_attn.*"],
                "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
            },
            {"weights": "bf16", "experts": "w4a16"},
        ),
        ({"quant_method": "bitsandbytes"}, None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, {"weights": "w4a16"}),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, {"weights": "int8"}),
        ({"quant_method": "gptq", "bits": 8}, {"weights": "int8"}),
        ({"quant_method": "gptq", "bits": 3}, None),
        ({"quant_method": "auto-round", "bits": 4}, {"weights": "w4a16"}),
        ({"quant_method": "hqq", "weights": {"bits": 4}}, {"weights": "w4a16"}),
        ({"quant_method": "gptq", "bits": 8, "weights": {"bits": 4}}, {"weights": "int8"}),
        ({"quant_method": "modelopt_fp4"}, {"weights": "nvfp4"}),
        ({"quant_method": "modelopt_fp8"}, None),
        ({"quant_method": "fbgemm_fp8"}, {"weights": "fp8"}),
        ({"quant_method": "fp8", "expert_dtype": "fp4"}, {"weights": "fp8", "experts": "mxfp4"}),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
            {"weights": "fp8", "kv_cache": "fp8"},
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "model.layers.0.self_attn*"]},
            {"weights": "bf16", "experts": "nvfp4"},
        ),
        (
            {
                "quant_method": "modelopt",
                "quant_algo": "MIXED_PRECISION",
                "quantized_layers": {
                    "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                    "model.layers.0.mlp.experts.0.up_proj": {"quant_algo": "NVFP4"},
                    "model.layers.0.mlp.shared_experts.up_proj": {"quant_algo": "FP8"},
                },
            },
            {"weights": "fp8", "experts": "nvfp4"},
        ),
        (
            {
                "quant_method": "quark",
                "global_quant_config": {"weight": {"dtype": "fp4"}},
                "exclude": ["re:.*self_attn.*"],
            },
            {"weights": "bf16", "experts": "mxfp4"},
        ),
        (
            {"quant_method": "torchao", "quant_type": {"default": {"_type": "Float8WeightOnlyConfig"}}},
            {"weights": "fp8"},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "block"}}},
                "kv_cache_scheme": {"num_bits": 8, "type": "float"},
            },
            {"weights": "fp8_block", "kv_cache": "fp8"},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": {"num_bits": 8}}
                },
            },
            {"weights": "w4a8"},
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_0": {"targets": ["re:.*self_attn.*"], "weights": {"num_bits": 8, "type": "float"}},
                    "group_1": {
                        "targets": ["re:.*experts.*"],
                        "weights": {"num_bits": 4, "type": "float", "group_size": 32},
                    },
                },
            },
            {"weights": "fp8", "experts": "mxfp4"},
        ),
        (None, None),
    ],
)
def test_configurations_tell_the_format(own: object, formats: dict[str, str] | None) -> None:
    assert stored_formats({"quantization_config": own, "num_experts": 8}) == formats


def test_attention_that_is_left_out_of_every_layer_has_16_bits_in_a_dense_model() -> None:
    own = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    for names in (["*self_attn*", "lm_head"], [f"model.layers.{i}.self_attn*" for i in range(60)]):
        found = stored_formats({"quantization_config": own | {"ignore": names}})
        assert found == {"weights": "nvfp4", "attention": "bf16"}


def test_norms_indexers_and_towers_that_are_left_out_are_no_attention() -> None:
    """As GLM-5-FP8 and Llama-4-Scout list them (copies in ai-dynamo/aiconfigurator and inference-sim)."""
    layers = [f"model.layers.{i}.self_attn.{part}" for i in range(79) for part in ("q_a_layernorm", "indexers_proj")]
    own = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": layers}
    assert stored_formats({"quantization_config": own, "num_experts": 8}) == {"weights": "fp8_block"}
    towers = [f"vision_model.model.layers.{i}.self_attn.q_proj" for i in range(34)]
    own = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": towers}
    assert stored_formats({"quantization_config": own, "num_experts": 8}) == {"weights": "nvfp4"}


def test_a_dense_model_has_no_format_of_experts() -> None:
    own = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.0.self_attn*"]}
    assert stored_formats({"quantization_config": own}) == {"weights": "nvfp4"}
    assert stored_formats({"quantization_config": own, "text_config": {"n_routed_experts": 8}}) == {
        "weights": "bf16",
        "experts": "nvfp4",
    }


def test_the_file_of_modelopt_tells_the_format() -> None:
    assert stored_formats({"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}) == {
        "weights": "nvfp4",
        "kv_cache": "fp8",
    }


def test_a_configuration_on_disk_decides(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "quantization_config": {"quant_method": "fp8"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    d = prepare(_scenario({"config": str(tmp_path / "config.json")}, "h100-sxm-80gb", 1))
    assert d.serving.precision.weights == "fp8"


def test_plan_uses_the_released_format() -> None:
    asked = _scenario("openai/gpt-oss-120b", "h100-sxm-80gb", 1)
    asked["serving"]["pools"] = []  # type: ignore[index]
    asked["serving"]["slo"] = {"ttft_s": 5, "tpot_s": 0.1}  # type: ignore[index]
    asked["search"] = {"target": "serving", "space": {"pp": [1], "dp": [1], "max_num_seqs": [64]}}
    found = api.plan(asked)
    assert found.result.num_devices <= 2
    assert any(a["field"] == "serving.precision.experts" and a["value"] == "mxfp4" for a in found.result.assumed)
