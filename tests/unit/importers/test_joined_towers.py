"""Towers with resamplers, second towers and convolutions: weights that transformers 5.24 builds by default."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.importers.huggingface.towers import counted_towers, tower_parameters

COUNTED: dict[str, tuple[int, dict[str, Any], int]] = {
    "glm_ocr": (
        1024,
        {
            "vision_config": {
                "depth": 24,
                "hidden_size": 1024,
                "image_size": 336,
                "in_channels": 3,
                "intermediate_size": 4096,
                "model_type": "glm_ocr_vision",
                "num_heads": 16,
                "out_hidden_size": 1536,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        434120192,
    ),
    "step3p7": (
        4096,
        {
            "vision_config": {
                "hidden_size": 1536,
                "image_size": 728,
                "intermediate_size": 8960,
                "max_position_embeddings": 2704,
                "model_type": "step3p5_vision",
                "num_attention_heads": 16,
                "num_channels": 3,
                "num_hidden_layers": 47,
                "patch_size": 14,
            },
            "projector_bias": False,
        },
        1981014784,
    ),
    "muse_glimmer": (
        6656,
        {
            "vision_config": {
                "hidden_size": 1536,
                "intermediate_size": 8960,
                "max_position_embeddings": 1024,
                "merge_size": 2,
                "model_type": "muse_glimmer_vision",
                "num_attention_heads": 16,
                "num_hidden_layers": 50,
                "patch_size": 14,
                "patch_temporal": 2,
                "pos_emb_height": 32,
                "pos_emb_width": 32,
            },
            "projector_hidden_size": 4096,
        },
        1921845760,
    ),
    "idefics2": (
        4096,
        {
            "vision_config": {
                "hidden_size": 768,
                "image_size": 224,
                "intermediate_size": 3072,
                "model_type": "idefics2_vision",
                "num_attention_heads": 12,
                "num_channels": 3,
                "num_hidden_layers": 12,
                "patch_size": 32,
            },
            "perceiver_config": {
                "hidden_size": 4096,
                "model_type": "idefics2_perceiver",
                "num_key_value_heads": 4,
                "resampler_depth": 3,
                "resampler_head_dim": 96,
                "resampler_n_heads": 16,
                "resampler_n_latents": 64,
            },
            "text_config": {"intermediate_size": 14336},
        },
        819662848,
    ),
    "hyperclovax_vision_v2": (
        4096,
        {
            "vision_config": {
                "depth": 32,
                "hidden_size": 3584,
                "in_channels": 3,
                "intermediate_size": 3420,
                "model_type": "qwen2_5_vl_vision",
                "num_heads": 16,
                "out_hidden_size": 3584,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        3097709312,
    ),
    "qwen2_5_omni_thinker": (
        3584,
        {
            "vision_config": {
                "depth": 32,
                "hidden_size": 3584,
                "in_channels": 3,
                "intermediate_size": 3420,
                "model_type": "qwen2_5_omni_vision_encoder",
                "num_heads": 16,
                "out_hidden_size": 3584,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            },
            "audio_config": {
                "d_model": 1280,
                "encoder_ffn_dim": 5120,
                "encoder_layers": 32,
                "max_source_positions": 1500,
                "model_type": "qwen2_5_omni_audio_encoder",
                "num_mel_bins": 128,
                "output_dim": 3584,
            },
        },
        3722672384,
    ),
    "lighton_ocr": (
        1024,
        {
            "vision_config": {
                "head_dim": 64,
                "hidden_size": 1024,
                "image_size": 1540,
                "intermediate_size": 4096,
                "model_type": "pixtral",
                "num_attention_heads": 16,
                "num_channels": 3,
                "num_hidden_layers": 24,
                "patch_size": 14,
            },
            "spatial_merge_size": 2,
        },
        409597952,
    ),
    "mistral_large4": (
        6144,
        {
            "vision_config": {
                "head_dim": 128,
                "hidden_size": 2048,
                "image_size": 1540,
                "intermediate_size": 6144,
                "model_type": "pixtral",
                "num_attention_heads": 16,
                "num_channels": 3,
                "num_hidden_layers": 30,
                "patch_size": 14,
            },
            "spatial_merge_size": 2,
            "multimodal_projector_bias": False,
            "vision_feature_layer": -1,
        },
        1704218624,
    ),
    "deepseek_vl": (
        4096,
        {
            "vision_config": {
                "hidden_size": 768,
                "image_size": 224,
                "intermediate_size": 3072,
                "model_type": "siglip_vision_model",
                "num_attention_heads": 12,
                "num_channels": 3,
                "num_hidden_layers": 12,
                "patch_size": 16,
                "vision_use_head": True,
            }
        },
        112815360,
    ),
    "paddleocr_vl": (
        1024,
        {
            "vision_config": {
                "hidden_size": 1152,
                "image_size": 384,
                "intermediate_size": 4304,
                "model_type": "paddleocr_vl_vision",
                "num_attention_heads": 16,
                "num_channels": 3,
                "num_hidden_layers": 27,
                "patch_size": 14,
                "spatial_merge_size": 2,
            }
        },
        438947440,
    ),
    "video_llava": (
        4096,
        {
            "vision_config": {
                "hidden_size": 1024,
                "image_size": 224,
                "intermediate_size": 4096,
                "model_type": "clip_vision_model",
                "num_attention_heads": 16,
                "num_channels": 3,
                "num_hidden_layers": 24,
                "patch_size": 14,
            },
            "multimodal_projector_bias": True,
            "vision_feature_layer": -2,
        },
        627339264,
    ),
    "nemotron_h_omni": (
        4096,
        {
            "vision_config": {
                "hidden_size": 1280,
                "image_size": 224,
                "max_img_size": 2048,
                "model_type": "radio",
                "num_attention_heads": 16,
                "num_channels": 3,
                "num_cls_tokens": 3,
                "num_hidden_layers": 32,
                "num_registers": 7,
                "patch_size": 16,
                "video_temporal_patch_size": 2,
            },
            "projector_hidden_size": 4096,
        },
        691447296,
    ),
    "lfm2_vl": (
        2560,
        {
            "vision_config": {
                "hidden_size": 768,
                "intermediate_size": 3072,
                "model_type": "siglip2_vision_model",
                "num_attention_heads": 12,
                "num_channels": 3,
                "num_hidden_layers": 12,
                "num_patches": 256,
                "patch_size": 16,
                "vision_use_head": True,
            },
            "projector_hidden_size": 2560,
            "downsample_factor": 2,
            "projector_use_layernorm": True,
            "projector_bias": True,
        },
        107359488,
    ),
    "molmo2": (
        4096,
        {
            "vision_config": {
                "head_dim": 72,
                "hidden_size": 1152,
                "image_size": [378, 378],
                "intermediate_size": 4304,
                "model_type": "molmo2_vision",
                "num_attention_heads": 16,
                "num_channels": 3,
                "num_hidden_layers": 25,
                "num_key_value_heads": 16,
                "num_position_embeddings": 729,
                "patch_size": 14,
            },
            "adapter_config": {
                "head_dim": 72,
                "hidden_size": 1152,
                "intermediate_size": 18944,
                "model_type": "molmo2_adapter",
                "num_attention_heads": 16,
                "num_key_value_heads": 16,
                "text_hidden_size": 3584,
                "vision_feature_layer": [24, 18],
            },
        },
        503342544,
    ),
    "voxtral_realtime": (
        3072,
        {
            "audio_config": {
                "head_dim": 64,
                "hidden_size": 1280,
                "intermediate_size": 5120,
                "max_position_embeddings": 1500,
                "model_type": "voxtral_realtime_encoder",
                "num_attention_heads": 32,
                "num_hidden_layers": 32,
                "num_mel_bins": 128,
            },
            "downsample_factor": 4,
        },
        995561216,
    ),
    "glm5_next": (
        4096,
        {
            "vision_config": {
                "depth": 24,
                "hidden_size": 1024,
                "image_size": 336,
                "in_channels": 3,
                "intermediate_size": 4096,
                "model_type": "glm5_next_vision",
                "num_heads": 16,
                "out_hidden_size": 1536,
                "patch_size": 14,
                "projection_intermediate_size": 10240,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
            }
        },
        460072448,
    ),
}
"""`model_type` → width of the text model, what its file states of the towers, weights."""


@pytest.mark.parametrize("kind", COUNTED)
def test_towers_have_the_weights_that_the_library_builds(kind: str) -> None:
    text, fields, weights = COUNTED[kind]
    assert tower_parameters({"model_type": kind, **fields}, text) == pytest.approx(weights, rel=1e-5)


def test_the_tower_of_llama_3_2_vision_makes_the_published_size() -> None:
    """Llama-3.2-11B-Vision has 10.67 billion weights (safetensors total), 9.775 of them in its text model."""
    fields = {"hidden_size": 1280, "num_hidden_layers": 32, "num_global_layers": 8, "image_size": 560, "patch_size": 14}
    own = tower_parameters({"model_type": "mllama", "vision_config": fields}, 4096)
    assert own is not None
    assert (9_775_192_064 + own) / 1e9 == pytest.approx(10.67, abs=0.01)


def test_towers_of_a_type_that_is_not_known_are_plain_encoders_and_said() -> None:
    vision = {"model_type": "new", "hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096}
    towers = counted_towers({"model_type": "new_vl", "vision_config": vision | {"patch_size": 14}}, 4096)
    assert "plain encoders" in towers.why
    assert towers.count == pytest.approx(24 * (4 * 1024**2 + 2 * 1024 * 4096), rel=0.1)


def test_towers_without_dimensions_are_not_counted_and_said() -> None:
    towers = counted_towers({"model_type": "new_vl", "vision_config": {"architecture": "fastvit"}}, 4096)
    assert towers.count == 0 and "not counted" in towers.why
