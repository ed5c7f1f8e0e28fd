"""Hugging Face configs become models whose parameter counts are the published ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.catalog.parameters import count_parameters
from windtunnel.errors import BadInput
from windtunnel.importers import from_hf_config, read_hf_config

# The dimension fields of published config.json files; catalogue name → config.
CONFIGS: dict[str, dict[str, Any]] = {
    "meta-llama/Llama-3.1-8B": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "hidden_act": "silu",
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "attention_bias": False,
        "mlp_bias": False,
        "pretraining_tp": 1,
    },
    "meta-llama/Llama-3.2-1B": {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 128256,
        "tie_word_embeddings": True,
    },
    "Qwen/Qwen2.5-0.5B": {
        "model_type": "qwen2",
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "sliding_window": 32768,
    },
    "Qwen/Qwen3-30B-A3B": {
        "model_type": "qwen3_moe",
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "vocab_size": 151936,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "decoder_sparse_step": 1,
        "tie_word_embeddings": False,
    },
    "Qwen/Qwen3-Next-80B-A3B-Instruct": {
        "model_type": "qwen3_next",
        "hidden_size": 2048,
        "intermediate_size": 5120,
        "num_hidden_layers": 48,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "vocab_size": 151936,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "decoder_sparse_step": 1,
        "full_attention_interval": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "tie_word_embeddings": False,
    },
    "mistralai/Mistral-7B-v0.1": {
        "model_type": "mistral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "sliding_window": 4096,
    },
    "mistralai/Mixtral-8x7B-v0.1": {
        "model_type": "mixtral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "sliding_window": None,
    },
    "google/gemma-2-9b": {
        "model_type": "gemma2",
        "hidden_size": 3584,
        "intermediate_size": 14336,
        "num_hidden_layers": 42,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "vocab_size": 256000,
        "hidden_act": "gelu_pytorch_tanh",
        "sliding_window": 4096,
    },
    "google/gemma-3-4b-pt": {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_hidden_layers": 34,
            "sliding_window": 1024,
        },
        "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
    },
    "microsoft/phi-2": {
        "model_type": "phi",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "vocab_size": 51200,
        "hidden_act": "gelu_new",
        "qk_layernorm": False,
        "tie_word_embeddings": False,
    },
    "openai-community/gpt2-xl": {
        "model_type": "gpt2",
        "n_embd": 1600,
        "n_layer": 48,
        "n_head": 25,
        "n_positions": 1024,
        "n_ctx": 1024,
        "vocab_size": 50257,
        "activation_function": "gelu_new",
        "n_inner": None,
    },
    "EleutherAI/gpt-neox-20b": {
        "model_type": "gpt_neox",
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 44,
        "num_attention_heads": 64,
        "vocab_size": 50432,
        "hidden_act": "gelu_fast",
        "use_parallel_residual": True,
        "tie_word_embeddings": False,
    },
    "EleutherAI/gpt-j-6b": {
        "model_type": "gptj",
        "n_embd": 4096,
        "n_layer": 28,
        "n_head": 16,
        "n_positions": 2048,
        "vocab_size": 50400,
        "activation_function": "gelu_new",
        "tie_word_embeddings": False,
    },
    "facebook/opt-13b": {
        "model_type": "opt",
        "hidden_size": 5120,
        "ffn_dim": 20480,
        "num_hidden_layers": 40,
        "num_attention_heads": 40,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
        "activation_function": "relu",
    },
    "bigscience/bloom": {
        "model_type": "bloom",
        "n_embed": 14336,
        "hidden_size": 14336,
        "n_layer": 70,
        "num_attention_heads": 112,
        "vocab_size": 250880,
    },
    "mosaicml/mpt-7b": {
        "model_type": "mpt",
        "d_model": 4096,
        "n_layers": 32,
        "n_heads": 32,
        "expansion_ratio": 4,
        "max_seq_len": 2048,
        "vocab_size": 50432,
        "attn_config": {"alibi": True},
        "no_bias": True,
    },
    "tiiuae/falcon-7b": {
        "model_type": "falcon",
        "hidden_size": 4544,
        "num_hidden_layers": 32,
        "num_attention_heads": 71,
        "vocab_size": 65024,
        "multi_query": True,
        "parallel_attn": True,
        "new_decoder_architecture": False,
        "bias": False,
        "alibi": False,
    },
    "deepseek-ai/DeepSeek-V3": {
        "model_type": "deepseek_v3",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "num_nextn_predict_layers": 1,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "n_shared_experts": 1,
        "n_routed_experts": 256,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "qk_nope_head_dim": 128,
        "num_experts_per_tok": 8,
        "moe_layer_freq": 1,
        "first_k_dense_replace": 3,
        "vocab_size": 129280,
        "tie_word_embeddings": False,
    },
    "openai/gpt-oss-20b": {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "intermediate_size": 2880,
        "num_hidden_layers": 24,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "vocab_size": 201088,
        "num_local_experts": 32,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "attention_bias": True,
        "layer_types": ["sliding_attention", "full_attention"] * 12,
        "tie_word_embeddings": False,
    },
    "CohereForAI/c4ai-command-r-v01": {
        "model_type": "cohere",
        "hidden_size": 8192,
        "intermediate_size": 22528,
        "num_hidden_layers": 40,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "vocab_size": 256000,
    },
    "zai-org/GLM-4.5-Air": {
        "model_type": "glm4_moe",
        "hidden_size": 4096,
        "intermediate_size": 10944,
        "num_hidden_layers": 46,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151552,
        "n_routed_experts": 128,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408,
        "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 1,
        "attention_bias": True,
    },
    "meta-llama/Llama-4-Maverick-17B-128E": {
        "model_type": "llama4",
        "text_config": {
            "model_type": "llama4_text",
            "hidden_size": 5120,
            "intermediate_size": 8192,
            "intermediate_size_mlp": 16384,
            "num_hidden_layers": 48,
            "num_attention_heads": 40,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 202048,
            "num_local_experts": 128,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 2,
            "attention_chunk_size": 8192,
            "use_qk_norm": False,
        },
    },
    "google/t5-v1_1-xl": {
        "model_type": "t5",
        "d_model": 2048,
        "d_kv": 64,
        "d_ff": 5120,
        "num_layers": 24,
        "num_decoder_layers": 24,
        "num_heads": 32,
        "vocab_size": 32128,
        "feed_forward_proj": "gated-gelu",
        "is_encoder_decoder": True,
        "dense_act_fn": "gelu_new",
        "tie_word_embeddings": False,
    },
    "google-bert/bert-large-uncased": {
        "model_type": "bert",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        "hidden_act": "gelu",
    },
    "google/vit-base-patch16-224": {
        "model_type": "vit",
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "num_labels": 1000,
    },
    "nvidia/Nemotron-4-15B": {
        "model_type": "nemotron",
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 32,
        "num_attention_heads": 48,
        "num_key_value_heads": 8,
        "vocab_size": 256000,
        "hidden_act": "relu2",
        "tie_word_embeddings": False,
    },
    "nvidia/Nemotron-H-8B-Base-8K": {
        "model_type": "nemotron_h",
        "hidden_size": 4096,
        "intermediate_size": 21504,
        "num_hidden_layers": 52,
        "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "attention_head_dim": 128,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "vocab_size": 131072,
        "tie_word_embeddings": False,
    },
    "bigcode/starcoder2-15b": {
        "model_type": "starcoder2",
        "hidden_size": 6144,
        "intermediate_size": 24576,
        "num_hidden_layers": 40,
        "num_attention_heads": 48,
        "num_key_value_heads": 4,
        "vocab_size": 49152,
        "use_bias": True,
        "sliding_window": 4096,
        "tie_word_embeddings": False,
    },
}


@pytest.mark.parametrize("name", CONFIGS)
def test_config_counts_what_was_published(name: str) -> None:
    model = from_hf_config(CONFIGS[name], name)
    known = catalog.model(name)
    assert known.num_parameters_published is not None
    text = count_parameters(model).total - model.tower_parameters  # published counts are without towers
    assert text == pytest.approx(known.num_parameters_published, rel=0.01)
    assert model.layer_kinds() == known.layer_kinds()
    assert model.shared_expert_intermediate_size == known.shared_expert_intermediate_size
    assert (model.family, model.kv_heads, model.norm, model.gated_mlp, model.position_embedding) == (
        known.family,
        known.kv_heads,
        known.norm,
        known.gated_mlp,
        known.position_embedding,
    )


def test_known_types_assume_nothing() -> None:
    assert read_hf_config(CONFIGS["meta-llama/Llama-3.1-8B"]).assumed == ()


def test_unknown_type_is_read_by_meaning_and_says_so() -> None:
    config = {
        "model_type": "brandnew",
        "n_embd": 1024,
        "n_layers": 12,
        "num_heads": 16,
        "n_kv_heads": 4,
        "vocab_size": 1000,
        "ffn_hidden_size": 4096,
        "hidden_act": "silu",
        "layer_norm_epsilon": 1e-5,
    }
    got = read_hf_config(config, "brandnew")
    assert (got.model.hidden_size, got.model.num_hidden_layers, got.model.kv_heads) == (1024, 12, 4)
    assert got.model.norm == "layernorm"
    assert {"model.model_type", "model.gated_mlp", "model.tie_word_embeddings"} <= {
        field for field, _, _ in got.assumed
    }


LIKE_LLAMA = {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16, "vocab_size": 1000}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        # as CTRL and MPT write it: a layer norm, no activation; their networks have no gate
        ({"n_embd": 1280, "dff": 8192, "layer_norm_epsilon": 1e-6}, "says whether its MLP is gated"),
        ({"expansion_ratio": 4, "layer_norm_epsilon": 1e-5}, "says whether its MLP is gated"),
        # as StarCoder 2 does: the activation of Gemma's gated network, in a plain one
        (
            {"intermediate_size": 4096, "hidden_act": "gelu_pytorch_tanh", "norm_epsilon": 1e-5},
            "with activation gelu_pytorch_tanh, is gated",
        ),
        # as JetMoE does: experts of queries and outputs
        (
            {
                "intermediate_size": 4096,
                "hidden_act": "silu",
                "rms_norm_eps": 1e-6,
                "kv_channels": 128,
                "num_local_experts": 8,
            },
            "kv_channels with experts",
        ),
    ],
)
def test_unknown_types_that_look_like_known_ones_are_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_hf_config({"model_type": "brandnew", **LIKE_LLAMA, **fields})
    assert any(p.field == "model.model_type" and why in p.rule for p in caught.value.problems)


def test_unknown_types_with_the_activation_and_norm_of_gemma_are_gated() -> None:
    fields = {"intermediate_size": 4096, "hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6}
    assert read_hf_config({"model_type": "brandnew", **LIKE_LLAMA, **fields}).model.gated_mlp


def test_missing_fields_are_listed_together() -> None:
    with pytest.raises(BadInput) as caught:
        from_hf_config({"model_type": "llama", "hidden_size": 4096, "vocab_size": "many"})
    fields = {problem.field for problem in caught.value.problems}
    assert fields == {
        "model.num_hidden_layers",
        "model.num_attention_heads",
        "model.vocab_size",
        "model.intermediate_size",
    }


def test_contradiction_is_bad_input() -> None:
    config = {**CONFIGS["meta-llama/Llama-3.1-8B"], "num_key_value_heads": 5}
    with pytest.raises(BadInput, match="num_key_value_heads = 5"):
        from_hf_config(config)


def test_file_and_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["microsoft/phi-2"]), encoding="utf-8")
    assert from_hf_config(tmp_path / "config.json") == from_hf_config(tmp_path)
    assert from_hf_config(tmp_path).name == tmp_path.name


@pytest.mark.parametrize(("text", "rule"), [("{", "is not JSON"), ("[1]", "JSON object")])
def test_bad_files(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=rule):
        from_hf_config(path)
    with pytest.raises(BadInput, match="cannot be read"):
        from_hf_config(tmp_path / "none.json")


def test_chunked_attention_is_read() -> None:
    model = from_hf_config(CONFIGS["meta-llama/Llama-4-Maverick-17B-128E"])
    assert model.attention_chunk_size == 8192 and model.sliding_window is None and model.sliding_window_pattern == 4


LLAVA: dict[str, Any] = {
    "model_type": "llava",
    "text_config": {"model_type": "llama", "vocab_size": 32064},
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "image_size": 336,
        "patch_size": 14,
    },
}


def test_a_text_part_leaves_out_what_equals_the_default_of_its_class() -> None:
    read = read_hf_config(LLAVA)
    assert (read.model.hidden_size, read.model.num_hidden_layers, read.model.intermediate_size) == (4096, 32, 11008)
    assert count_parameters(read.model).total == 7_063_427_072  # as transformers 5.24 builds it
    assert ("model.num_hidden_layers", "32", "default of llama configs") in read.assumed
    with pytest.raises(BadInput, match="num_hidden_layers"):
        read_hf_config(LLAVA["text_config"])


def test_the_composed_model_ties_its_head() -> None:
    assert read_hf_config(LLAVA | {"tie_word_embeddings": True}).model.tie_word_embeddings
    inner = LLAVA["text_config"] | {"tie_word_embeddings": True}
    assert read_hf_config(LLAVA | {"text_config": inner}).model.tie_word_embeddings
    untied = LLAVA | {"text_config": inner, "tie_word_embeddings": False}
    assert not read_hf_config(untied).model.tie_word_embeddings


@pytest.mark.parametrize("field", [{"pruned_heads": {"0": [1]}}, {"pruned_heads": {}}, {"mlp_dims": {}}])
def test_what_is_no_dimension_stops_nothing(field: dict[str, Any]) -> None:
    own = CONFIGS["meta-llama/Llama-3.2-1B"]
    assert from_hf_config(own | field) == from_hf_config(own)


def test_nomic_bert_has_a_gated_network_and_a_tied_head() -> None:
    fields = {"n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "vocab_size": 30528, "n_positions": 2048}
    model = from_hf_config({"model_type": "nomic_bert", "activation_function": "swiglu", **fields})
    assert count_parameters(model).total == pytest.approx(136.7e6, rel=0.005)  # 137 M published
