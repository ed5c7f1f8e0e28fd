"""Weights of vision towers, counted by transformers 5.24 with the defaults of each type on the meta device."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.importers.huggingface.network import Config
from windtunnel.importers.huggingface.towers import tower_parameters
from windtunnel.importers.huggingface.vision_towers import clip

COUNTED: dict[str, tuple[int, dict[str, Any], int]] = {
    "llava": (
        4096,
        {
            "multimodal_projector_bias": True,
            "vision_feature_layer": -2,
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "model_type": "clip_vision_model",
                "num_hidden_layers": 24,
                "patch_size": 14,
                "projection_dim": 768,
            },
        },
        324487168,
    ),
    "llava_next": (
        4096,
        {
            "multimodal_projector_bias": True,
            "vision_feature_layer": -2,
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "model_type": "clip_vision_model",
                "num_hidden_layers": 24,
                "patch_size": 14,
                "projection_dim": 768,
            },
        },
        324491264,
    ),
    "llava_next_video": (
        4096,
        {
            "multimodal_projector_bias": True,
            "vision_feature_layer": -2,
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "model_type": "clip_vision_model",
                "num_hidden_layers": 24,
                "patch_size": 14,
                "projection_dim": 768,
            },
        },
        324491264,
    ),
    "llava_onevision": (
        4096,
        {
            "multimodal_projector_bias": True,
            "vision_feature_layer": -1,
            "vision_config": {
                "hidden_size": 1152,
                "image_size": 384,
                "intermediate_size": 4304,
                "model_type": "siglip_vision_model",
                "num_hidden_layers": 26,
                "patch_size": 14,
                "vision_use_head": False,
            },
        },
        419255840,
    ),
    "vipllava": (
        4096,
        {
            "vision_feature_layer": [-2, -5, -8, -11, 6],
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 336,
                "intermediate_size": 4096,
                "model_type": "clip_vision_model",
                "num_hidden_layers": 24,
                "patch_size": 14,
                "projection_dim": 768,
            },
        },
        341274624,
    ),
    "mistral3": (
        5120,
        {
            "multimodal_projector_bias": False,
            "spatial_merge_size": 2,
            "vision_feature_layer": -1,
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 1540,
                "intermediate_size": 4096,
                "model_type": "pixtral",
                "num_hidden_layers": 24,
                "patch_size": 14,
            },
        },
        438958080,
    ),
    "paligemma": (
        2048,
        {
            "vision_config": {
                "hidden_size": 1152,
                "image_size": 224,
                "intermediate_size": 4096,
                "model_type": "siglip_vision_model",
                "num_hidden_layers": 27,
                "patch_size": 14,
                "projection_dim": 2048,
                "vision_use_head": False,
            }
        },
        401858816,
    ),
    "idefics3": (
        4096,
        {
            "scale_factor": 2,
            "vision_config": {
                "hidden_size": 1152,
                "image_size": 224,
                "intermediate_size": 3072,
                "model_type": "idefics3_vision",
                "num_hidden_layers": 12,
                "patch_size": 32,
            },
        },
        171270144,
    ),
    "smolvlm": (
        4096,
        {
            "scale_factor": 2,
            "vision_config": {
                "hidden_size": 1152,
                "image_size": 224,
                "intermediate_size": 3072,
                "model_type": "smolvlm_vision",
                "num_hidden_layers": 12,
                "patch_size": 32,
            },
        },
        171270144,
    ),
    "qwen2_vl": (
        8192,
        {
            "vision_config": {
                "depth": 32,
                "embed_dim": 1280,
                "hidden_size": 3584,
                "mlp_ratio": 4,
                "model_type": "qwen2_vl_vision",
                "num_heads": 16,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        675759104,
    ),
    "qwen2_5_vl": (
        8192,
        {
            "vision_config": {
                "depth": 32,
                "hidden_size": 3584,
                "intermediate_size": 3420,
                "model_type": "qwen2_5_vl_vision",
                "num_heads": 16,
                "out_hidden_size": 3584,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        3083025152,
    ),
    "qwen3_vl": (
        4096,
        {
            "vision_config": {
                "deepstack_visual_indexes": [8, 16, 24],
                "depth": 27,
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "model_type": "qwen3_vl_vision",
                "num_heads": 16,
                "num_position_embeddings": 2304,
                "out_hidden_size": 3584,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        566949104,
    ),
    "qwen3_vl_moe": (
        2048,
        {
            "vision_config": {
                "deepstack_visual_indexes": [8, 16, 24],
                "depth": 27,
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "model_type": "qwen3_vl_moe_vision",
                "num_heads": 16,
                "num_position_embeddings": 2304,
                "out_hidden_size": 3584,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        566949104,
    ),
    "qwen3_5": (
        4096,
        {
            "vision_config": {
                "depth": 27,
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "model_type": "qwen3_5_vision",
                "num_heads": 16,
                "num_position_embeddings": 2304,
                "out_hidden_size": 3584,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        453650672,
    ),
    "qwen3_5_moe": (
        2048,
        {
            "vision_config": {
                "depth": 27,
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "model_type": "qwen3_5_moe_vision",
                "num_heads": 16,
                "num_position_embeddings": 2304,
                "out_hidden_size": 3584,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        453650672,
    ),
    "cosmos3_omni": (
        4096,
        {
            "vision_config": {
                "deepstack_visual_indexes": [8, 16, 24],
                "depth": 27,
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "model_type": "qwen3_vl_vision",
                "num_heads": 16,
                "num_position_embeddings": 2304,
                "out_hidden_size": 3584,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        566949104,
    ),
    "exaone4_5": (
        4096,
        {
            "vision_config": {
                "depth": 32,
                "hidden_size": 3584,
                "intermediate_size": 3420,
                "model_type": "exaone4_5_vision",
                "num_heads": 16,
                "num_key_value_heads": 8,
                "out_hidden_size": 3584,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        2671868672,
    ),
    "glm46v": (
        4096,
        {
            "vision_config": {
                "attention_bias": False,
                "depth": 24,
                "hidden_size": 1536,
                "image_size": 336,
                "intermediate_size": 13696,
                "model_type": "glm4v_vision",
                "num_heads": 12,
                "out_hidden_size": 4096,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        892498432,
    ),
    "glmga": (
        4096,
        {
            "vision_config": {
                "attention_bias": False,
                "depth": 24,
                "hidden_size": 1536,
                "image_size": 336,
                "intermediate_size": 13696,
                "model_type": "glm4v_vision",
                "num_heads": 12,
                "out_hidden_size": 4096,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        892498432,
    ),
    "glm4v": (
        4096,
        {
            "vision_config": {
                "attention_bias": False,
                "depth": 24,
                "hidden_size": 1536,
                "image_size": 336,
                "intermediate_size": 13696,
                "model_type": "glm4v_vision",
                "num_heads": 12,
                "out_hidden_size": 4096,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        892498432,
    ),
    "glm4v_moe": (
        4096,
        {
            "vision_config": {
                "attention_bias": False,
                "depth": 24,
                "hidden_size": 1536,
                "image_size": 336,
                "intermediate_size": 13696,
                "model_type": "glm4v_moe_vision",
                "num_heads": 12,
                "out_hidden_size": 4096,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        892498432,
    ),
    "internvl": (
        4096,
        {
            "vision_feature_layer": -1,
            "vision_config": {
                "attention_bias": False,
                "hidden_size": 1024,
                "image_size": [448, 448],
                "intermediate_size": 4096,
                "model_type": "internvl_vision",
                "norm_type": "layer_norm",
                "num_hidden_layers": 24,
                "patch_size": [14, 14],
                "use_qk_norm": False,
            },
        },
        337509376,
    ),
    "qianfan_ocr": (
        4096,
        {
            "vision_feature_layer": -1,
            "vision_config": {
                "attention_bias": True,
                "hidden_size": 1024,
                "image_size": [448, 448],
                "intermediate_size": 4096,
                "model_type": "qianfan_ocr_vision",
                "norm_type": "layer_norm",
                "num_hidden_layers": 24,
                "patch_size": [14, 14],
                "use_qk_norm": False,
            },
        },
        337583104,
    ),
    "cohere2_vision": (
        8192,
        {
            "alignment_intermediate_size": 36864,
            "downsample_factor": 2,
            "vision_config": {
                "hidden_size": 1152,
                "image_size": 512,
                "intermediate_size": 3072,
                "model_type": "siglip_vision_model",
                "num_hidden_layers": 27,
                "patch_size": 16,
                "vision_use_head": True,
            },
        },
        670168832,
    ),
    "minimax_m3_vl": (
        6144,
        {
            "vision_config": {
                "hidden_size": 1280,
                "image_size": 2016,
                "intermediate_size": 5120,
                "model_type": "minimax_m3_vl_vision",
                "num_hidden_layers": 32,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        865567232,
    ),
    "llama4": (
        5120,
        {
            "vision_config": {
                "hidden_size": 768,
                "image_size": 448,
                "intermediate_size": 5632,
                "model_type": "llama4_vision_model",
                "num_hidden_layers": 34,
                "patch_size": 14,
                "projector_input_dim": 4096,
                "projector_output_dim": 4096,
                "vision_output_dim": 7680,
            }
        },
        455178240,
    ),
    "kimi_k25": (
        7168,
        {
            "vision_config": {
                "hidden_size": 1152,
                "intermediate_size": 4304,
                "model_type": "kimi_k25_vision",
                "num_hidden_layers": 27,
                "patch_size": 14,
                "pos_emb_height": 64,
                "pos_emb_width": 64,
            }
        },
        471143920,
    ),
    "qwen2_audio": (
        4096,
        {"audio_config": {"d_model": 1280, "encoder_ffn_dim": 5120, "encoder_layers": 32, "num_mel_bins": 128}},
        642215936,
    ),
}
"""`model_type` → width of the text model, what its file states of the tower, weights."""


@pytest.mark.parametrize("kind", COUNTED)
def test_towers_have_the_weights_that_the_library_builds(kind: str) -> None:
    text, fields, weights = COUNTED[kind]
    assert tower_parameters({"model_type": kind, **fields}, text) == weights


def test_towers_that_are_named_and_not_described() -> None:
    """Original files of LLaVA and FastVLM: a known encoder and two linear layers; another one is not counted."""
    plain = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 14}
    encoder = clip(Config(plain | {"image_size": 336}, ""))
    named = {"model_type": "llava_llama", "mm_vision_tower": "openai/clip-vit-large-patch14-336"}
    assert tower_parameters(named, 4096) == encoder + 1024 * 4096 + 4096 + 4096 * 4096 + 4096
    fast = {"model_type": "llava_qwen2", "mm_vision_tower": "mobileclip_l_1024"}
    assert tower_parameters(fast, 896) == 125_100_000 + 3072 * 896 + 896 + 896 * 896 + 896
    wrapped = {"model_type": "fast_vlm", "vision_config": {"architecture": "fastvit_mci3", "hidden_size": 3072}}
    assert tower_parameters(wrapped, 896) == tower_parameters(fast, 896)
    assert tower_parameters(named | {"mm_vision_tower": "mine/own-encoder"}, 4096) is None
    assert tower_parameters({"model_type": "llama"}, 4096) == 0


def test_a_tower_with_an_unknown_encoder_or_a_missing_width_is_not_counted() -> None:
    assert tower_parameters({"model_type": "llava", "vision_config": {"model_type": "dinov2"}}, 4096) is None
    assert tower_parameters({"model_type": "internvl_chat", "vision_config": {"intermediate_size": 4096}}, 4096) is None


INTERN = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "image_size": 448, "patch_size": 14}


@pytest.mark.parametrize("qk_norm", [False, True])
def test_files_of_internvl_and_of_the_library_describe_the_same_tower(qk_norm: bool) -> None:
    own = {"model_type": "internvl_chat", "vision_config": INTERN | {"qkv_bias": True, "qk_normalization": qk_norm}}
    theirs = {"model_type": "internvl", "vision_config": INTERN | {"attention_bias": True, "use_qk_norm": qk_norm}}
    assert tower_parameters(own, 4096) == tower_parameters(theirs, 4096)
    assert (tower_parameters(own, 4096) or 0) - 24 * 3 * 1024 - 24 * 2048 * qk_norm == COUNTED["internvl"][2]
    root_mean_square = own | {"vision_config": own["vision_config"] | {"norm_type": "rms_norm"}}
    assert (tower_parameters(own, 4096) or 0) - (tower_parameters(root_mean_square, 4096) or 0) == 24 * 2 * 1024


def test_moonvit_is_the_same_under_the_names_of_both_its_models() -> None:
    text, fields, weights = COUNTED["kimi_k25"]
    v = fields["vision_config"]
    older = {name: v[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "patch_size")}
    older |= {"init_pos_emb_height": 64, "init_pos_emb_width": 64}
    assert tower_parameters({"model_type": "kimi_vl", "vision_config": older}, text) == weights
    newer = {f"vt_{name}": older[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers")}
    assert tower_parameters({"model_type": "kimi_k25", "vision_config": newer}, text) == weights


def test_widths_that_an_encoder_leaves_out_are_those_of_its_class() -> None:
    clip = {"model_type": "llava", "vision_config": {"model_type": "clip_vision_model"}}
    stated = {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "patch_size": 32,
        "image_size": 224,
    }
    assert tower_parameters(clip, 4096) == tower_parameters(
        {"model_type": "llava", "vision_config": {"model_type": "clip_vision_model", **stated}}, 4096
    )
    pixtral = {"model_type": "mistral3", "vision_config": {"model_type": "pixtral"}}
    stated = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 16}
    assert tower_parameters(pixtral, 5120) == tower_parameters(
        {"model_type": "mistral3", "vision_config": {"model_type": "pixtral", **stated}}, 5120
    )
