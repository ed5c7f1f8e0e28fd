"""Weights of the vision and audio towers of composed models, each with its projector: one function a family.

Widths come from the part of the configuration that describes the tower; where it leaves one out because it equals the
library's default, that default is taken (transformers 5.24, `modeling_*.py` and `configuration_*.py` of each type).
"""

from __future__ import annotations

from collections.abc import Callable

from windtunnel.importers.huggingface.network import Config


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    """Weights of a linear layer."""
    return inputs * outputs + outputs * bias


def _attention(hidden: int, bias: bool = True) -> int:
    """Query, key, value and output projections of equal width."""
    return 4 * linear(hidden, hidden, bias)


def _plain(hidden: int, width: int) -> int:
    return linear(hidden, width) + linear(width, hidden)


def gated_network(hidden: int, width: int, bias: bool) -> int:
    """Weights of a gated MLP."""
    return 2 * linear(hidden, width, bias) + linear(width, hidden, bias)


def encoder_layers(hidden: int, width: int, depth: int) -> int:
    """Attention and a plain MLP, both with biases, and two layer norms, `depth` times."""
    return depth * (_attention(hidden) + _plain(hidden, width) + 4 * hidden)


def patches(v: Config, hidden: int, patch: int, *, frames: int = 1, bias: bool = True) -> int:
    """Weights of the convolution that makes tokens of patches."""
    channels = v.number("in_channels", v.number("in_chans", v.number("num_channels", 3)))
    return linear(channels * frames * patch * patch, hidden, bias)


def clip(v: Config) -> int:
    """CLIP's image encoder with its class token and the norms in front of and behind its layers."""
    h, f, patch = v.number("hidden_size", 768), v.number("intermediate_size", 3072), v.number("patch_size", 32)
    side = v.number("image_size", 224) // patch
    layers = encoder_layers(h, f, v.number("num_hidden_layers", 12))
    return h + patches(v, h, patch, bias=False) + (side * side + 1) * h + layers + 4 * h


def siglip(v: Config) -> int:
    """SigLIP's image encoder; where it pools, with a probe, its attention and its MLP."""
    h, f, patch = v.number("hidden_size", 768), v.number("intermediate_size", 3072), v.number("patch_size", 16)
    side = v.number("image_size", v.number("crop_size", 224)) // patch
    pooled = encoder_layers(h, f, 1) - h if v.flag("vision_use_head", True) else 0
    layers = encoder_layers(h, f, v.number("num_hidden_layers", 12))
    return patches(v, h, patch) + side * side * h + layers + 2 * h + pooled


def pixtral(v: Config) -> int:
    """Pixtral's encoder: rotary positions, gated networks, norms by the root mean square."""
    h, f = v.number("hidden_size", 1024), v.number("intermediate_size", 4096)
    layers = v.number("num_hidden_layers", 24) * (_attention(h, False) + gated_network(h, f, False) + 2 * h)
    return patches(v, h, v.number("patch_size", 16), bias=False) + h + layers


def _encoder(v: Config) -> int | None:
    """The encoder that `model_type` of a vision part names; None where it is another."""
    kinds = {"clip_vision_model": clip, "siglip_vision_model": siglip, "pixtral": pixtral}
    count = kinds.get(str(v.fields.get("model_type")))
    return None if count is None else count(v)


def _width(v: Config) -> int:
    return v.number("hidden_size", 1024 if v.fields.get("model_type") == "pixtral" else 768)


def _features(c: Config) -> int:
    """How many layers' outputs the projector reads side by side."""
    layers = c.fields.get("vision_feature_layers", c.fields.get("vision_feature_layer"))
    return max(len(layers), 1) if isinstance(layers, list) else 1


def llava(c: Config, text: int) -> int | None:
    """An encoder by its type and two linear layers; LLaVA-NeXT and OneVision add a token at the end of a line."""
    v = c.part("vision_config")
    encoder, bias = _encoder(v), c.flag("multimodal_projector_bias", True)
    if encoder is None:
        return None
    normed = 2 * _width(v) * _features(c) if c.fields.get("model_type") == "vipllava" else 0
    new_line = text if c.fields.get("model_type") in ("llava_next", "llava_onevision", "llava_next_video") else 0
    return encoder + linear(_width(v) * _features(c), text, bias) + linear(text, text, bias) + new_line + normed


def mistral_3(c: Config, text: int) -> int | None:
    """Pixtral's encoder; a norm, a layer that merges patches, and two linear layers."""
    v = c.part("vision_config")
    encoder, h, bias = _encoder(v), _width(v), c.flag("multimodal_projector_bias")
    if encoder is None:
        return None
    merged = h * c.number("spatial_merge_size", 2) ** 2
    return encoder + h + merged * h + linear(h * _features(c), text, bias) + linear(text, text, bias)


def paligemma(c: Config, text: int) -> int | None:
    """SigLIP without its head and one linear layer."""
    v = c.part("vision_config")
    return siglip(v) + linear(_width(v), v.number("projection_dim", text))


def idefics_3(c: Config, text: int) -> int:
    """SigLIP's layers without pooling, and one linear layer over patches that are shuffled together."""
    v = c.part("vision_config")
    h, f, patch = v.number("hidden_size", 1152), v.number("intermediate_size", 3072), v.number("patch_size", 32)
    side = v.number("image_size", 224) // patch
    layers = encoder_layers(h, f, v.number("num_hidden_layers", 12))
    shuffled = h * c.number("scale_factor", 2) ** 2
    return patches(v, h, patch) + side * side * h + layers + 2 * h + shuffled * text


def qwen_2_vl(c: Config, text: int) -> int:
    """Patches of two frames, layers with plain networks, and a merger of four patches."""
    v = c.part("vision_config")
    h, patch = v.number("embed_dim", 1280), v.number("patch_size", 14)
    layers = encoder_layers(h, int(h * v.number("mlp_ratio", 4)), v.number("depth", 32))
    merged = h * v.number("spatial_merge_size", 2) ** 2
    merger = 2 * h + linear(merged, merged) + linear(merged, v.number("hidden_size", text))
    frames = v.number("temporal_patch_size", 2)
    return patches(v, h, patch, frames=frames, bias=False) + layers + merger


def qwen_2_5_vl(c: Config, text: int) -> int:
    """As Qwen2-VL with gated networks and norms by the root mean square."""
    v = c.part("vision_config")
    h, f = v.number("hidden_size", 3584), v.number("intermediate_size", 3420)
    layer = _attention(h) + gated_network(h, f, True) + 2 * h
    merged = h * v.number("spatial_merge_size", 2) ** 2
    merger = h + linear(merged, merged) + linear(merged, v.number("out_hidden_size", text))
    frames = v.number("temporal_patch_size", 2)
    return patches(v, h, v.number("patch_size", 14), frames=frames, bias=False) + v.number("depth", 32) * layer + merger


def exaone_4_5(c: Config, text: int) -> int:
    """As Qwen2.5-VL, with keys and values of half the heads."""
    v = c.part("vision_config")
    h, heads = v.number("hidden_size", 3584), v.number("num_heads", 16)
    kv_heads = v.number("num_key_value_heads", heads // 2)
    return qwen_2_5_vl(c, text) - v.number("depth", 32) * linear(h, 2 * h * (heads - kv_heads) // heads)


def qwen_3_5(c: Config, text: int) -> int:
    """As Qwen3-VL, where no layer feeds the text model."""
    return _qwen_3(c.part("vision_config"), text, fed=0)


def qwen_3_vl(c: Config, text: int) -> int:
    """Learned positions, plain networks, a merger, and one more merger for each layer that feeds the text model."""
    v = c.part("vision_config")
    layers = v.fields.get("deepstack_visual_indexes")
    return _qwen_3(v, text, fed=len(layers) if isinstance(layers, list) else 3)


def _qwen_3(v: Config, text: int, *, fed: int) -> int:
    h, f, out = v.number("hidden_size", 1152), v.number("intermediate_size", 4304), v.number("out_hidden_size", text)
    merged = h * v.number("spatial_merge_size", 2) ** 2
    mlp = linear(merged, merged) + linear(merged, out)
    positions = v.number("num_position_embeddings", 2304) * h
    front = patches(v, h, v.number("patch_size", 16), frames=v.number("temporal_patch_size", 2))
    return front + positions + encoder_layers(h, f, v.number("depth", 27)) + 2 * h + mlp + fed * (2 * merged + mlp)


def glm_4v(c: Config, text: int) -> int:
    """Layers with gated networks as wide as the text model, a convolution over patches, a gated projector."""
    v = c.part("vision_config")
    h, patch, out = v.number("hidden_size", 1536), v.number("patch_size", 14), v.number("out_hidden_size", text)
    side, merge = v.number("image_size", 336) // patch, v.number("spatial_merge_size", 2)
    biased = v.flag("attention_bias")
    layer = 4 * h * h + 3 * h * biased + gated_network(h, out, False) + 2 * h
    projector = out * out + 2 * out + gated_network(out, v.number("intermediate_size", 13696), False)
    merged = linear(h * merge * merge, out)
    front = patches(v, h, patch, frames=v.number("temporal_patch_size", 2))
    return front + side * side * h + v.number("depth", 24) * layer + 2 * h + merged + projector


def internvl_chat(c: Config, text: int) -> int:
    """InternViT in the makers' own files (modeling_intern_vit.py)."""
    v = c.part("vision_config")
    for name in ("hidden_size", "intermediate_size", "num_hidden_layers"):
        v.need(name)
    return _intern_vit(v, text, bias=v.flag("qkv_bias", True), qk_norm=v.flag("qk_normalization"))


def internvl(c: Config, text: int) -> int:
    """InternViT as the library has it: InternVL3-*-hf."""
    v = c.part("vision_config")
    return _intern_vit(v, text, bias=v.flag("attention_bias"), qk_norm=v.flag("use_qk_norm"))


def _intern_vit(v: Config, text: int, *, bias: bool, qk_norm: bool) -> int:
    """Layers with scales of their residuals; a norm over four patches and two linear layers behind them."""
    h, f, depth = v.number("hidden_size", 1024), v.number("intermediate_size", 4096), v.number("num_hidden_layers", 24)
    image, patch = (
        side[0] if isinstance(side := v.fields.get(name), list) and side else v.number(name, usual)
        for name, usual in (("image_size", 448), ("patch_size", 14))
    )
    attention = 3 * linear(h, h, bias) + linear(h, h) + 2 * h * qk_norm
    norms = 4 * h if v.fields.get("norm_type", "layer_norm") == "layer_norm" else 2 * h
    layers = depth * (attention + _plain(h, f) + norms + 2 * h)
    shuffled = 4 * h
    projector = 2 * shuffled + linear(shuffled, text) + linear(text, text)
    return h + patches(v, h, patch) + ((image // patch) ** 2 + 1) * h + layers + projector


def minimax_m3(c: Config, text: int) -> int:
    """CLIP's layers over patches of two frames; two linear layers a patch and two more over four of them."""
    v = c.part("vision_config")
    h, f = v.number("hidden_size", 1280), v.number("intermediate_size", 5120)
    layers = encoder_layers(h, f, v.number("num_hidden_layers", 32))
    merged = text * v.number("spatial_merge_size", 2) ** 2
    projector = linear(h, text) + linear(text, text) + linear(merged, text) + linear(text, text)
    frames = v.number("temporal_patch_size", 2)
    return patches(v, h, v.number("patch_size", 14), frames=frames, bias=False) + 2 * h + layers + projector


def cohere_2_vision(c: Config, text: int) -> int:
    """SigLIP, and a gated layer over patches that are shuffled together."""
    v, inner = c.part("vision_config"), c.number("alignment_intermediate_size", 36864)
    shuffled = _width(v) * c.number("downsample_factor", 2) ** 2
    return siglip(v) + linear(shuffled, inner) + linear(inner // 2, text)


def llama_4(c: Config, text: int) -> int:
    """Layers with biases and rotary positions, an adapter over shuffled patches, one linear layer."""
    v = c.part("vision_config")
    h, f, patch = v.number("hidden_size", 768), v.number("intermediate_size", 5632), v.number("patch_size", 14)
    side = v.number("image_size", 448) // patch
    layers = encoder_layers(h, f, v.number("num_hidden_layers", 34))
    adapter = f * v.number("projector_input_dim", 4096) + v.number("projector_output_dim", 4096) ** 2
    return (
        patches(v, h, patch, bias=False)
        + h
        + (side * side + 1) * h
        + layers
        + 4 * h
        + adapter
        + v.number("vision_output_dim", 7680) * text
    )


def kimi_vl(c: Config, text: int) -> int:
    """MoonViT: positions of 64 by 64 patches, and a projector over four patches (modeling_kimi_vl.py)."""
    v = c.part("vision_config")
    h, f = v.need("hidden_size", "vt_hidden_size"), v.need("intermediate_size", "vt_intermediate_size")
    high, wide = (v.number(f"init_pos_emb_{side}", v.number(f"pos_emb_{side}", 64)) for side in ("height", "width"))
    positions = high * wide * h
    layers = encoder_layers(h, f, v.need("num_hidden_layers", "vt_num_hidden_layers"))
    merged = 4 * h
    projector = 2 * h + linear(merged, merged) + linear(merged, text)
    return patches(v, h, v.number("patch_size", 14)) + positions + layers + 2 * h + projector


def whisper_encoder(hidden: int, width: int, depth: int, bins: int, positions: int) -> int:
    """Two convolutions over spectra, positions, layers whose keys have no bias, and a last norm."""
    front = linear(3 * bins, hidden) + linear(3 * hidden, hidden) + positions * hidden
    return front + encoder_layers(hidden, width, depth) - depth * hidden + 2 * hidden


def qwen_2_audio(c: Config, text: int) -> int:
    """Whisper's encoder and one linear layer."""
    a = c.part("audio_config")
    h, bins, positions = (
        a.number("d_model", 1280),
        a.number("num_mel_bins", 128),
        a.number("max_source_positions", 1500),
    )
    depth = a.number("encoder_layers", 32)
    return whisper_encoder(h, a.number("encoder_ffn_dim", 5120), depth, bins, positions) + linear(h, text)


TOWERS: dict[str, Callable[[Config, int], int | None]] = {
    "llava": llava,
    "llava_next": llava,
    "llava_next_video": llava,
    "llava_onevision": llava,
    "vipllava": llava,
    "mistral3": mistral_3,
    "paligemma": paligemma,
    "idefics3": idefics_3,
    "smolvlm": idefics_3,
    "qwen2_vl": qwen_2_vl,
    "qwen2_5_vl": qwen_2_5_vl,
    "qwen3_vl": qwen_3_vl,
    "qwen3_vl_moe": qwen_3_vl,
    "qwen3_5": qwen_3_5,
    "qwen3_5_moe": qwen_3_5,
    "cosmos3_omni": qwen_3_vl,
    "exaone4_5": exaone_4_5,
    "glm46v": glm_4v,
    "glmga": glm_4v,
    "glm4v": glm_4v,
    "glm4v_moe": glm_4v,
    "internvl": internvl,
    "internvl_chat": internvl_chat,
    "qianfan_ocr": internvl,
    "cohere2_vision": cohere_2_vision,
    "minimax_m3_vl": minimax_m3,
    "llama4": llama_4,
    "kimi_vl": kimi_vl,
    "kimi_k25": kimi_vl,
    "qwen2_audio": qwen_2_audio,
}
"""`model_type` → weights of its towers, from the whole file and the width of the text model."""
