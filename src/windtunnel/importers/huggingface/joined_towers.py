"""Weights of towers behind which more stands than a projector, and of two towers beside each other.

Widths and defaults as in `vision_towers` (transformers 5.24, `modeling_*.py` and `configuration_*.py` of each type).
"""

from __future__ import annotations

from collections.abc import Callable

from windtunnel.importers.huggingface.network import Config
from windtunnel.importers.huggingface.vision_towers import (
    clip,
    encoder_layers,
    gated_network,
    linear,
    llava,
    mistral_3,
    patches,
    qwen_2_5_vl,
    qwen_3_vl,
    siglip,
    whisper_encoder,
)


def idefics_2(c: Config, text: int) -> int:
    """SigLIP without pooling, a gated projector, and a resampler that reads the image into 64 latents."""
    v, p = c.part("vision_config"), c.part("perceiver_config")
    unpooled = Config({**v.fields, "vision_use_head": False}, c.name)
    inner = c.part("text_config").number("intermediate_size", 14336)
    h, heads, size = (
        p.number("hidden_size", 4096),
        p.number("resampler_n_heads", 16),
        p.number("resampler_head_dim", 96),
    )
    attention = 2 * h * size * (heads + p.number("num_key_value_heads", 4))
    layer = attention + gated_network(h, 4 * h, False) + 3 * h
    resampler = p.number("resampler_n_latents", 64) * h + p.number("resampler_depth", 3) * layer + h
    w = v.number("hidden_size", 768)
    return siglip(unpooled) + 2 * w * inner + inner * text + resampler


def mllama(c: Config, text: int) -> int:
    """Tiles with positions for each aspect ratio, layers and gated layers over all tiles, one linear layer over six."""
    v = c.part("vision_config")
    h, f, patch = v.number("hidden_size", 1280), v.number("intermediate_size", 5120), v.number("patch_size", 14)
    tiles, ratios = v.number("max_num_tiles", 4), 9
    places = (v.number("image_size", 448) // patch) ** 2 + 1
    depth = v.number("num_hidden_layers", 32) + v.number("num_global_layers", 8)
    positions = places * h + ratios * tiles * places * h + 2 * ratios * tiles * h
    layers = encoder_layers(h, f, depth) - depth * 4 * h
    return (
        patches(v, h, patch, bias=False)
        + 5 * h
        + positions
        + layers
        + linear(v.number("vision_output_dim", 7680), text)
    )


def glm_ocr(c: Config, text: int) -> int:
    """Gated layers with norms of queries and keys, a convolution over four patches, a gated projector."""
    v = c.part("vision_config")
    h, f, out = v.number("hidden_size", 1024), v.number("intermediate_size", 4096), v.number("out_hidden_size", text)
    layer = 4 * linear(h, h) + gated_network(h, f, True) + 2 * h + 2 * (h // v.number("num_heads", 16))
    inner = v.number("projection_intermediate_size", out * v.number("in_channels", 3))
    projector = out * out + 2 * out + gated_network(out, inner, False)
    merged = linear(h * v.number("spatial_merge_size", 2) ** 2, out)
    front = patches(v, h, v.number("patch_size", 14), frames=v.number("temporal_patch_size", 2))
    return front + v.number("depth", 24) * layer + h + merged + projector


def step_3_7(c: Config, text: int) -> int:
    """Layers with scales of their residuals, two convolutions that halve the grid, one linear layer."""
    v = c.part("vision_config")
    h, f, depth = v.number("hidden_size", 1536), v.number("intermediate_size", 8960), v.number("num_hidden_layers", 47)
    positions = v.number("max_position_embeddings", 2704) * h
    halved = linear(9 * h, 2 * h) + linear(9 * 2 * h, 4 * h)
    front = patches(v, h, v.number("patch_size", 14), bias=False) + positions
    return front + encoder_layers(h, f, depth) + depth * 2 * h + 4 * h + halved + 4 * h * text


def muse(c: Config, text: int) -> int:
    """Patches of two frames with learned positions, layers, an adapter over four patches, one linear layer."""
    v = c.part("vision_config")
    h, f, depth = v.number("hidden_size", 1536), v.number("intermediate_size", 8960), v.number("num_hidden_layers", 50)
    positions = v.number("pos_emb_height", 32) * v.number("pos_emb_width", 32) * h
    merged, adapted = h * v.number("merge_size", 2) ** 2, v.number("adapter_hidden_size", 4096)
    adapter = merged * adapted + adapted * adapted
    front = patches(v, h, v.number("patch_size", 14), frames=v.number("patch_temporal", 2)) + positions
    return front + encoder_layers(h, f, depth) + 2 * h + adapter + adapted * text


def hyperclovax(c: Config, text: int) -> int:
    """The tower of Qwen2.5-VL and one linear layer."""
    out = c.part("vision_config").number("out_hidden_size", 3584)
    return qwen_2_5_vl(c, out) + linear(out, text)


def _speech(c: Config) -> int:
    """Whisper's encoder without learned positions, and one linear layer."""
    a = c.part("audio_config")
    h, out = a.number("d_model", 1280), a.number("output_dim", 3584)
    encoder = whisper_encoder(
        h, a.number("encoder_ffn_dim", 5120), a.number("encoder_layers", 32), a.number("num_mel_bins", 128), 0
    )
    return encoder + linear(h, out)


def qwen_2_5_omni(c: Config, text: int) -> int:
    """The tower of Qwen2.5-VL and an encoder of sounds."""
    return qwen_2_5_vl(c, text) + _speech(c)


def qwen_3_omni(c: Config, text: int) -> int:
    """The tower of Qwen3-VL, and an encoder of sounds behind three convolutions over spectra."""
    a = c.part("audio_config")
    h, wide = a.number("d_model", 1280), a.number("downsample_hidden_size", 480)
    bins = a.number("num_mel_bins", 128)
    front = 9 * wide + 2 * 9 * wide * wide + wide * (-(-bins // 8)) * h
    plain = linear(3 * bins, h) + linear(3 * h, h)
    return qwen_3_vl(c, text) + _speech(c) - plain + front + linear(h, h)


def ernie_4_5_vl(c: Config, text: int) -> int:
    """The tower of Qwen2-VL, a resampler over space and time, and the experts of images in the text model's layers."""
    v, t = c.part("vision_config"), c.part("text_config")
    t = t if t.fields else c
    h, f = v.number("hidden_size", v.number("embed_dim", 1280)), v.number("intermediate_size", 5120)
    front = patches(v, h, v.number("patch_size", 14), bias=False)
    merged = h * v.number("spatial_merge_size", 2) ** 2
    joined = merged * v.number("temporal_merge_size", 2)
    resampler = linear(merged, merged) + linear(merged, merged) + linear(joined, merged) + linear(merged, merged)
    resampler += 4 * merged + linear(merged, text) + text
    widths, experts = t.fields.get("moe_intermediate_size"), t.fields.get("moe_num_experts", 64)
    images = experts[-1] if isinstance(experts, list) and experts else experts
    width = widths[-1] if isinstance(widths, list) and widths else 0
    kinds = t.fields.get("mlp_layer_types")
    depth, first = t.number("num_hidden_layers", 28), t.fields.get("moe_layer_start_index", 1)
    first = first[0] if isinstance(first, list) and first else first
    sparse = kinds.count("sparse") if isinstance(kinds, list) else depth - (first if isinstance(first, int) else 1)
    routed = sparse * (images if isinstance(images, int) else 0) * (3 * text * width + text)
    return front + encoder_layers(h, f, v.number("depth", 32)) + 2 * h + resampler + routed


def paddleocr_vl(c: Config, text: int) -> int:
    """SigLIP without pooling, a norm and two linear layers over four patches."""
    v = c.part("vision_config")
    h = v.number("hidden_size", 1152)
    unpooled = Config({"hidden_size": 1152, "intermediate_size": 4304, **v.fields, "vision_use_head": False}, c.name)
    merged = h * v.number("spatial_merge_size", 2) ** 2
    return siglip(unpooled) + 2 * h + linear(merged, merged) + linear(merged, text)


def video_llava(c: Config, text: int) -> int | None:
    """CLIP for images, CLIP for videos, and the projector of LLaVA."""
    one = llava(c, text)
    return None if one is None else one + clip(c.part("vision_config"))


def radio(c: Config, text: int) -> int:
    """RADIO with positions for its largest image, patches of images and of videos; a norm and two linear layers."""
    v = c.part("vision_config")
    h, patch, depth = v.number("hidden_size", 1280), v.number("patch_size", 16), v.number("num_hidden_layers", 32)
    side, channels = v.number("max_img_size", 2048) // patch, v.number("num_channels", 3)
    marks = v.number("num_cls_tokens", 3) + v.number("num_registers", 7)
    frames = 1 + v.number("video_temporal_patch_size", 2)
    front = (side * side + marks + frames * channels * patch * patch) * h
    merged = h * 4
    wide = c.number("projector_hidden_size", c.number("vit_projector_hidden_size", 4096))
    layers = encoder_layers(h, 4 * h, depth) + depth * 2 * h
    return front + layers + merged + merged * wide + wide * text


def lfm_2_vl(c: Config, text: int) -> int:
    """SigLIP with positions for a number of patches, and two linear layers over patches that are shuffled together."""
    v = c.part("vision_config")
    h, patch = v.number("hidden_size", 768), v.number("patch_size", 16)
    side = round(v.number("num_patches", 256) ** 0.5) * patch
    shuffled, wide = h * c.number("downsample_factor", 2) ** 2, c.number("projector_hidden_size", 2560)
    normed = 2 * shuffled * c.flag("projector_use_layernorm", True)
    bias = c.flag("projector_bias", True)
    encoder = siglip(Config({**v.fields, "image_size": side}, c.name))
    return encoder + normed + linear(shuffled, wide, bias) + linear(wide, text, bias)


def molmo_2(c: Config, text: int) -> int:
    """A vision transformer; attention over the patches of two layers, and a gated projector."""
    v, a = c.part("vision_config"), c.part("adapter_config")
    h, f, patch = v.number("hidden_size", 1152), v.number("intermediate_size", 4304), v.number("patch_size", 14)
    front = patches(v, h, patch) + v.number("num_position_embeddings", 729) * h
    features, wide = a.fields.get("vision_feature_layer"), a.number("intermediate_size", 18944)
    read = h * (len(features) if isinstance(features, list) else 2)
    out = a.number("text_hidden_size", text)
    pooled = 3 * linear(read, h) + linear(h, h)
    return front + encoder_layers(h, f, v.number("num_hidden_layers", 25)) + pooled + 2 * h * wide + wide * out


def voxtral_realtime(c: Config, text: int) -> int:
    """A causal encoder of sounds with gated networks; two linear layers over four frames."""
    a = c.part("audio_config")
    h, f, depth = a.number("hidden_size", 1280), a.number("intermediate_size", 5120), a.number("num_hidden_layers", 32)
    inner = a.number("num_attention_heads", 32) * a.number("head_dim", 64)
    layer = 4 * h * inner + 2 * inner + h + gated_network(h, f, False) + 3 * h
    front = linear(3 * a.number("num_mel_bins", 128), h) + linear(3 * h, h)
    return front + depth * layer + h + h * c.number("downsample_factor", 4) * text + text * text


_NAMED = {
    "fastvit_mci3": (3072, 125_100_000),
    "mobileclip_l_1024": (3072, 125_100_000),
    "clip-vit-large-patch14": (1024, 303_179_776),
    "clip-vit-large-patch14-336": (1024, 303_507_456),
    "siglip-so400m-patch14-384": (1152, 428_225_600),
}
"""Encoder → its width and its weights: FastViTHD (arXiv 2412.13303), CLIP, SigLIP."""


def named_tower(name: object, text: int) -> int | None:
    """An encoder that a file names and does not describe, with LLaVA's two linear layers; None: it is not known."""
    known = _NAMED.get(str(name).rsplit("/", 1)[-1].lower())
    return None if known is None else known[1] + linear(known[0], text) + linear(text, text)


def fast_vlm(c: Config, text: int) -> int | None:
    """FastViTHD, by the name of its architecture, and two linear layers."""
    return named_tower(c.part("vision_config").fields.get("architecture"), text)


JOINED: dict[str, Callable[[Config, int], int | None]] = {
    "idefics2": idefics_2,
    "mllama": mllama,
    "glm_ocr": glm_ocr,
    "lfm2_vl": lfm_2_vl,
    "molmo2": molmo_2,
    "voxtral_realtime": voxtral_realtime,
    "fast_vlm": fast_vlm,
    "glm5_next": glm_ocr,
    "step3p7": step_3_7,
    "muse_glimmer": muse,
    "muse_spark": muse,
    "lighton_ocr": mistral_3,
    "mistral_large4": mistral_3,
    "deepseek_vl": llava,
    "hyperclovax_vision_v2": hyperclovax,
    "qwen2_5_omni": qwen_2_5_omni,
    "qwen2_5_omni_thinker": qwen_2_5_omni,
    "qwen3_omni_moe": qwen_3_omni,
    "qwen3_omni_moe_thinker": qwen_3_omni,
    "ernie4_5_vl_moe": ernie_4_5_vl,
    "ernie4_5_moe_vl": ernie_4_5_vl,
    "paddleocr_vl": paddleocr_vl,
    "video_llava": video_llava,
    "nemotron_h_omni": radio,
}
"""`model_type` → weights of its towers, from the whole file and the width of the text model."""
