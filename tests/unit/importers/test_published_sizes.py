"""Configurations as publishers write them, and the sizes that their model cards and reports state."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from windtunnel import catalog
from windtunnel.catalog.parameters import count_parameters
from windtunnel.errors import BadInput
from windtunnel.importers.hf_config import read_hf_config


class Published(NamedTuple):
    """Dimensions of a published `config.json` and the parameters that its publisher states, in billions."""

    fields: dict[str, Any]
    total: float
    active: float | None
    source: str


_ULTRA = (["mamba", "moe"] * 3 + ["mamba", "attention", "moe"]) * 12
_ZAMBA = ["hybrid" if i in (6, 11, 17, 23, 29, 35, 41, 47, 53, 59, 65, 71, 77) else "mamba" for i in range(81)]
_LFM2_ATTENDS = (2, 6, 10, 14, 18, 21)
PUBLISHED = {
    "AI21-Jamba-1.5-Mini": Published(
        {
            "model_type": "jamba",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 14336,
            "vocab_size": 65536,
            "num_experts": 16,
            "num_experts_per_tok": 2,
            "attn_layer_period": 8,
            "attn_layer_offset": 4,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_conv": 4,
            "mamba_d_state": 16,
            "mamba_dt_rank": 256,
            "mamba_expand": 2,
        },
        52,
        12,
        "Jamba-1.5 (arXiv 2408.12570): 12 billion active of 52",
    ),
    "Kimi-Linear-48B-A3B": Published(
        {
            "model_type": "kimi_linear",
            "hidden_size": 2304,
            "num_hidden_layers": 27,
            "num_attention_heads": 32,
            "intermediate_size": 9216,
            "vocab_size": 163840,
            "kv_lora_rank": 512,
            "q_lora_rank": None,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "num_experts": 256,
            "num_experts_per_token": 8,
            "num_shared_experts": 1,
            "moe_intermediate_size": 1024,
            "first_k_dense_replace": 1,
            "linear_attn_config": {
                "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
                "head_dim": 128,
                "num_heads": 32,
                "short_conv_kernel_size": 4,
            },
        },
        48,
        3,
        "Kimi Linear (arXiv 2510.26692): 3 billion active of 48",
    ),
    "falcon-mamba-7b": Published(
        {
            "model_type": "falcon_mamba",
            "hidden_size": 4096,
            "intermediate_size": 8192,
            "num_hidden_layers": 64,
            "state_size": 16,
            "time_step_rank": 256,
            "conv_kernel": 4,
            "expand": 16,
            "vocab_size": 65024,
            "tie_word_embeddings": False,
        },
        7.27,
        None,
        "Falcon Mamba (arXiv 2410.05355): 7.27 billion",
    ),
    "Zamba2-7B": Published(
        {
            "model_type": "zamba2",
            "hidden_size": 3584,
            "ffn_hidden_size": 14336,
            "kv_channels": 112,
            "layers_block_type": _ZAMBA,
            "lora_rank": 128,
            "mamba_headdim": 64,
            "mamba_ngroups": 2,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "num_hidden_layers": 81,
            "num_mem_blocks": 2,
            "state_size": 64,
            "use_shared_attention_lora": False,
            "vocab_size": 32000,
        },
        7.35,
        None,
        "Zamba2 (arXiv 2411.15242): 7.35 billion",
    ),
    "NVIDIA-Nemotron-3-Ultra-550B-A55B": Published(
        {
            "model_type": "nemotron_h",
            "hidden_size": 8192,
            "num_hidden_layers": None,
            "layers_block_type": _ULTRA,
            "num_attention_heads": 64,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "vocab_size": 131072,
            "mamba_head_dim": 64,
            "mamba_num_heads": 256,
            "ssm_state_size": 128,
            "n_groups": 8,
            "n_routed_experts": 512,
            "num_experts_per_tok": 22,
            "n_shared_experts": 1,
            "intermediate_size": 5120,
            "moe_intermediate_size": 5120,
            "moe_latent_size": 2048,
            "moe_shared_expert_intermediate_size": 10240,
        },
        550,
        55,
        "the model's name",
    ),
    "MiMo-V2-Flash": Published(
        {
            "model_type": "mimo_v2_flash",
            "hidden_size": 4096,
            "num_hidden_layers": 48,
            "num_attention_heads": 64,
            "num_key_value_heads": 4,
            "head_dim": 192,
            "v_head_dim": 128,
            "swa_num_attention_heads": 64,
            "swa_num_key_value_heads": 8,
            "swa_head_dim": 192,
            "swa_v_head_dim": 128,
            "sliding_window_size": 128,
            "hybrid_layer_pattern": [int(i not in (0, 5, 11, 17, 23, 29, 35, 41, 47)) for i in range(48)],
            "moe_layer_freq": [0] + [1] * 47,
            "n_routed_experts": 256,
            "n_shared_experts": None,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 2048,
            "intermediate_size": 16384,
            "vocab_size": 152576,
        },
        309,
        15,
        "MiMo-V2-Flash technical report (arXiv 2601.02780): 15 billion active of 309",
    ),
    "LongCat-Flash-Chat": Published(
        {
            "model_type": "longcat_flash",
            "hidden_size": 6144,
            "num_layers": 28,
            "num_attention_heads": 64,
            "ffn_hidden_size": 12288,
            "expert_ffn_hidden_size": 2048,
            "n_routed_experts": 512,
            "zero_expert_num": 256,
            "moe_topk": 12,
            "q_lora_rank": 1536,
            "kv_lora_rank": 512,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "v_head_dim": 128,
            "vocab_size": 131072,
        },
        560,
        None,
        "LongCat-Flash (arXiv 2509.01322): 560 billion; 18.6 to 31.3 active, as zero experts are chosen",
    ),
    "MiniMax-Text-01": Published(
        {
            "model_type": "minimax_text_01",
            "hidden_size": 6144,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "attn_type_list": ([0] * 7 + [1]) * 10,
            "intermediate_size": 9216,
            "num_local_experts": 32,
            "num_experts_per_tok": 2,
            "vocab_size": 200064,
            "tie_word_embeddings": False,
        },
        456,
        45.9,
        "MiniMax-01 (arXiv 2501.08313): 45.9 billion active of 456",
    ),
    "Hunyuan-A13B": Published(
        {
            "model_type": "hunyuan_v1_moe",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 3072,
            "moe_intermediate_size": [3072] * 32,
            "num_experts": 64,
            "moe_topk": [8] * 32,
            "num_shared_expert": [1] * 32,
            "vocab_size": 128167,
            "hidden_act": "silu",
            "tie_word_embeddings": True,
        },
        80,
        13,
        "technical report: 80 billion, 13 active",
    ),
    "LFM2-8B-A1B": Published(
        {
            "model_type": "lfm2_moe",
            "hidden_size": 2048,
            "num_hidden_layers": 24,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "intermediate_size": 7168,
            "moe_intermediate_size": 1792,
            "num_dense_layers": 2,
            "num_experts": 32,
            "num_experts_per_tok": 4,
            "conv_L_cache": 3,
            "layer_types": ["full_attention" if i in _LFM2_ATTENDS else "conv" for i in range(24)],
            "vocab_size": 65536,
        },
        8.3,
        1.5,
        "model card: 8.3 billion, 1.5 active",
    ),
    "Falcon-H1-7B": Published(
        {
            "model_type": "falcon_h1",
            "hidden_size": 3072,
            "num_hidden_layers": 44,
            "num_attention_heads": 12,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "intermediate_size": 12288,
            "mamba_d_conv": 4,
            "mamba_d_head": 128,
            "mamba_d_ssm": 3072,
            "mamba_d_state": 256,
            "mamba_n_groups": 1,
            "mamba_n_heads": 24,
            "vocab_size": 130049,
        },
        7.59,
        None,
        "Falcon-H1 (arXiv 2507.22448): 7.59 billion",
    ),
    "Granite-4.0-H-Small": Published(
        {
            "model_type": "granitemoehybrid",
            "hidden_size": 4096,
            "num_hidden_layers": 40,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "num_local_experts": 72,
            "num_experts_per_tok": 10,
            "shared_intermediate_size": 1536,
            "intermediate_size": 768,
            "layer_types": ["attention" if i in (5, 15, 25, 35) else "mamba" for i in range(40)],
            "mamba_n_heads": 128,
            "mamba_d_head": 64,
            "mamba_d_state": 128,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "tie_word_embeddings": True,
            "vocab_size": 100352,
        },
        32,
        9,
        "model card: 32 billion, 9 active",
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files_give_published_sizes(name: str) -> None:
    """Within 3 % of what is stated, which is rounded; active parameters within 6 %: some count the embedding."""
    published = PUBLISHED[name]
    counted = count_parameters(read_hf_config(published.fields, name).model)
    assert counted.total / 1e9 == pytest.approx(published.total, rel=0.03), published.source
    if published.active is not None:
        assert counted.active / 1e9 == pytest.approx(published.active, rel=0.06), published.source


KIMI_K3: dict[str, Any] = {
    "model_type": "kimi_k3",
    "text_config": {
        "attn_res_block_size": 12,
        "first_k_dense_replace": 1,
        "hidden_act": "situ",
        "hidden_size": 7168,
        "intermediate_size": 33792,
        "kv_lora_rank": 512,
        "latent_moe_use_norm": True,
        "mla_use_output_gate": True,
        "model_type": "kimi_linear",
        "moe_intermediate_size": 3072,
        "moe_layer_freq": 1,
        "num_attention_heads": 96,
        "num_experts": 896,
        "num_experts_per_token": 16,
        "num_hidden_layers": 93,
        "num_key_value_heads": 96,
        "num_shared_experts": 2,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "routed_expert_hidden_size": 3584,
        "v_head_dim": 128,
        "vocab_size": 163840,
    }
    | {
        "linear_attn_config": {
            "full_attn_layers": [*range(4, 93, 4), 93],
            "head_dim": 128,
            "num_heads": 96,
            "short_conv_kernel_size": 4,
            "use_full_rank_gate": True,
        }
    },
}
"""Fields of ai-dynamo/aiconfigurator, model_configs/moonshotai--Kimi-K3_config.json (095f58a)."""


def test_kimi_k3_has_experts_in_a_latent_and_gates_at_full_rank() -> None:
    model = read_hf_config(KIMI_K3, "Kimi-K3").model
    count = count_parameters(model)
    assert count.total / 1e12 == pytest.approx(2.78, rel=0.01)  # 896 experts of 3 x 3,584 x 3,072 in 92 layers: 2.72
    assert model.num_experts == 896 and model.num_experts_per_tok == 16
    low_rank = {**KIMI_K3["text_config"], "mla_use_output_gate": False}
    without = count_parameters(read_hf_config(KIMI_K3 | {"text_config": low_rank}, "Kimi-K3").model)
    assert count.total - without.total == 24 * 7168 * 96 * 128


def _block(groups: int | None, factor: float | None) -> dict[str, dict[str, object]]:
    return {
        "attention": {"n_heads_in_group": groups, "no_op": groups is None, "replace_with_linear": False},
        "ffn": {"ffn_mult": factor, "no_op": factor is None, "replace_with_linear": False},
    }


def test_blocks_of_a_search_have_shapes_of_their_own() -> None:
    """Llama-3.3-Nemotron-Super-49B-v1: 49.87 billion (model card), 31 of its 80 layers without attention."""
    h, heads = 8192, 64
    shapes = [_block(8, 5.25), _block(None, 2.625), _block(16, 0.5), _block(None, None)]
    shapes.append({"attention": {"replace_with_linear": True}, "ffn": {"intermediate_size": 1024}})
    fields = {"model_type": "nemotron-nas", "hidden_size": h, "num_attention_heads": heads, "vocab_size": 1000}
    model = read_hf_config(fields | {"num_hidden_layers": 5, "block_configs": shapes}, "searched").model
    assert model.num_hidden_layers == 4  # one of them is nothing
    wide, half, small = 28672, 14336, 2816  # 2 / 3 of the factor, to the next 256
    mixers = 2 * h * h + 2 * h * 8 * 128 + 2 * h * h + 2 * h * 4 * 128 + h * h
    networks = 3 * h * (wide + half + small + 1024)
    norms = (2 + 1 + 2 + 2) * h
    assert count_parameters(model).total == 2 * 1000 * h + h + mixers + networks + norms


def test_blocks_that_are_no_mappings_are_a_problem() -> None:
    fields = {"model_type": "deci", "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}
    with pytest.raises(BadInput, match="block_configs"):
        read_hf_config(fields | {"num_hidden_layers": 1, "block_configs": [7]}, "bad")


def test_text_parts_are_read_by_the_reader_of_their_type() -> None:
    """A composed file counts as its text part alone does, with its tower beside it."""
    text = PUBLISHED["LFM2-8B-A1B"].fields
    vision = {"model_type": "siglip2_vision_model", "hidden_size": 768, "num_hidden_layers": 12, "patch_size": 16}
    alone = read_hf_config(text, "text").model
    joined = read_hf_config({"model_type": "new_vl", "text_config": text, "vision_config": vision}, "joined").model
    assert joined.layers == alone.layers
    assert joined.tower_parameters > 80e6


def test_omni_models_are_their_thinker() -> None:
    text = {
        "model_type": "qwen3",
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
    }
    text |= {"intermediate_size": 2048, "vocab_size": 1000, "head_dim": 128}
    thinker = {"model_type": "new_thinker", "text_config": text}
    model = read_hf_config({"model_type": "new_omni", "thinker_config": thinker, "talker_config": {}}, "omni").model
    assert (model.hidden_size, model.num_hidden_layers) == (1024, 4)


def test_gemma_4_with_experts_has_a_dense_network_beside_them() -> None:
    """Gemma 4 26B-A4B: 25.2 billion in its text model (model card); fields of aiconfigurator's copy (095f58a)."""
    text = {
        "model_type": "gemma4_text", "hidden_size": 2816, "num_hidden_layers": 30, "num_attention_heads": 16,
        "num_key_value_heads": 8, "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 2,
        "attention_k_eq_v": True, "enable_moe_block": True, "num_experts": 128, "top_k_experts": 8,
        "moe_intermediate_size": 704, "intermediate_size": 2112, "vocab_size": 262144, "sliding_window": 1024,
        "hidden_size_per_layer_input": 0, "tie_word_embeddings": True, "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(30)],
    }  # fmt: skip
    model = read_hf_config({"model_type": "gemma4", "text_config": text}, "gemma").model
    assert count_parameters(model).total / 1e9 == pytest.approx(25.2, rel=0.01)
    assert count_parameters(model).total == pytest.approx(
        count_parameters(catalog.model("google/gemma-4-26b-a4b")).total, rel=0.001
    )


def test_minimax_m3_and_step_3_7() -> None:
    """Fields of aiconfigurator's copies (095f58a): 428 billion with the tower and 196 billion (model cards)."""
    m3 = {
        "model_type": "minimax_m3", "hidden_act": "swigluoai", "hidden_size": 6144, "intermediate_size": 3072,
        "dense_intermediate_size": 12288, "num_hidden_layers": 60, "num_attention_heads": 64, "num_key_value_heads": 4,
        "head_dim": 128, "num_local_experts": 128, "num_experts_per_tok": 4, "n_shared_experts": 1,
        "shared_intermediate_size": 3072, "moe_layer_freq": [0] * 3 + [1] * 57, "vocab_size": 200064,
        "use_qk_norm": True,
    }  # fmt: skip
    model = read_hf_config(m3, "MiniMax-M3").model
    assert (model.first_k_dense_replace, model.intermediate_size, model.moe_intermediate_size) == (3, 12288, 3072)
    assert count_parameters(model).total / 1e9 == pytest.approx(426, rel=0.01)
    step = {
        "model_type": "step3p7", "num_hidden_layers": 45, "hidden_size": 4096, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128896, "intermediate_size": 11264,
        "sliding_window": 512, "first_k_dense_replace": 3, "num_experts": 288, "num_experts_per_tok": 8,
        "moe_intermediate_size": 1280, "share_expert_dim": 1280,
        "layer_types": ["sliding_attention" if i % 4 else "full_attention" for i in range(45)],
    }  # fmt: skip
    read = read_hf_config(step, "Step-3.7-Flash").model
    assert count_parameters(read).total / 1e9 == pytest.approx(196, rel=0.01)
    assert read.layers[0].blocks[0].window == 0 and read.layers[1].blocks[0].window == 512
