"""Weights of vision and audio towers in front of a text model, with the projectors between them.

A tower is counted, not computed: its weights stand in memory, while its work depends on images and sounds that a
scenario does not describe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from windtunnel.graph.mixers.attention import attention
from windtunnel.importers.huggingface.joined_towers import JOINED, named_tower
from windtunnel.importers.huggingface.network import Config
from windtunnel.importers.huggingface.parts import bert_layer
from windtunnel.importers.huggingface.vision_towers import TOWERS, encoder_layers, siglip, whisper_encoder
from windtunnel.specs.model import ModelSpec


def _gemma_3(v: Config, text: int) -> int:
    h, _, _ = v.need("hidden_size"), v.need("intermediate_size"), v.need("patch_size")
    return siglip(v) + h * text + h


def _got_ocr2(v: Config, text: int) -> int:
    """The encoder of SAM with relative positions in windows, its neck, and two convolutions that halve the grid."""
    h, f, depth, patch = v.need("hidden_size"), v.need("mlp_dim"), v.need("num_hidden_layers"), v.need("patch_size")
    side, out, window = v.need("image_size") // patch, v.need("output_channels"), v.number("window_size", 14)
    size = h // v.need("num_attention_heads")
    seen_in_full = v.fields.get("global_attn_indexes")
    full = len(seen_in_full) if isinstance(seen_in_full, list) else 4
    relative = 2 * size * (full * (2 * side - 1) + (depth - full) * (2 * window - 1))
    neck = h * out + 9 * out * out + 4 * out
    projector = 9 * out * 2 * out + 9 * 2 * out * 4 * out + 4 * out * text + text
    patches = v.number("num_channels", 3) * patch * patch * h + h + side * side * h
    return patches + encoder_layers(h, f, depth) + relative + neck + projector


def _moss(v: Config, text: int) -> int:
    """The encoder of Whisper, and a projector that reads four frames at a time."""
    h, f, depth = v.need("hidden_size"), v.need("intermediate_size"), v.need("num_hidden_layers")
    encoder = whisper_encoder(h, f, depth, v.number("num_mel_bins", 80), v.number("max_source_positions", 1500))
    return encoder + 4 * h * text + text + text * text + 3 * text


def _phi_4_audio(a: Config, text: int) -> int:
    """A conformer: two half MLPs, attention and convolutions a layer; three strided convolutions in front."""
    h, f, depth = a.need("hidden_size"), a.need("intermediate_size"), a.need("num_blocks")
    half = h * 2 * f + 2 * f + f * h + h + 2 * h
    convolution = 2 * h + 2 * h + 2 * h * h + 2 * h + (a.number("kernel_size", 3) + 1) * h + 2 * (h * h + h)
    layer = 2 * half + 4 * (h * h + h) + convolution + 4 * h
    channels = a.number("nemo_conv_channels", 1024)
    front = 3 * 9 * channels + 2 * channels * channels + 5 * channels
    front += h * channels * a.number("nemo_final_size", 10) + h
    positions = 2 * a.number("bias_max_distance", 1000) * a.need("num_attention_heads")
    return front + positions + depth * layer + 2 * (h * text + text + text * text + text)


def _phi_4(c: Config, text: int) -> int:
    v = c.part("vision_config")
    h = v.need("hidden_size")
    vision = siglip(v) + 2 * h + h * text + text + text * text + text
    return vision + _phi_4_audio(c.part("audio_config"), text)


_TOWERS: dict[str, Callable[[Config, int], int | None]] = (
    TOWERS
    | JOINED
    | {
        "shieldgemma2": lambda c, text: _gemma_3(c.part("vision_config"), text),
        "gemma3": lambda c, text: _gemma_3(c.part("vision_config"), text),
        "got_ocr2": lambda c, text: _got_ocr2(c.part("vision_config"), text),
        "moss_transcribe_diarize": lambda c, text: _moss(c.part("audio_config"), text),
        "phi4_multimodal": _phi_4,
    }
)
"""`model_type` → weights of its towers, from the whole file and the width of the text model."""


def tower_parameters(config: Mapping[str, Any], text_hidden: int) -> int | None:
    """Weights of the towers of a configuration.

    Args:
        config: the whole file.
        text_hidden: width of the text model's residual stream.

    Returns:
        The count; 0 where the type has no tower; None where a tower is there that cannot be counted, because its type
        is not known or the file leaves out a dimension.
    """
    if not _tower_parts(config):
        named = config.get("mm_vision_tower")  # original files of LLaVA name their tower and describe nothing
        return named_tower(named, text_hidden) if named else 0
    count = _TOWERS.get(str(config.get("model_type")))
    if count is None:
        return None
    c = Config(config, "")
    total = count(c, text_hidden)
    return None if c.problems else total


@dataclass(frozen=True, slots=True)
class Towers:
    """Weights of the towers of a composed model."""

    count: int
    why: str
    """What was taken for granted; empty where the type is known, or where there is no tower."""


_WIDTHS = (
    "hidden_size",
    "embed_dim",
    "d_model",
    "encoder_dim",
    "vt_hidden_size",
    "width",
    "encoder_hidden_dim",
    "hidden_dim",
)
_DEPTHS = (
    "num_hidden_layers", "depth", "num_layers", "encoder_layers", "n_layers", "vt_num_hidden_layers", "num_blocks",
    "layers",
)  # fmt: skip
_NETWORKS = ("intermediate_size", "mlp_dim", "encoder_ffn_dim", "ffn_dim", "vt_intermediate_size")


def counted_towers(config: Mapping[str, Any], text_hidden: int) -> Towers:
    """Weights of the towers of a configuration, as plain encoders where their type is not known.

    Args:
        config: the whole file.
        text_hidden: width of the text model's residual stream.
    """
    known = tower_parameters(config, text_hidden)
    if known is not None:
        return Towers(known, "")
    counts = [_plain_encoder(part, text_hidden) for part in _tower_parts(config)]
    if None in counts:
        return Towers(
            0, "the towers of this type, or their dimensions in this file, are not known; they are not counted"
        )
    why = "the towers of this type are counted as plain encoders of their width and depth with two layers behind them"
    return Towers(sum(count or 0 for count in counts), why)


def _tower_parts(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Parts that describe towers: of vision and audio, and encoders beside a text part."""
    names = [name for name in ("vision_config", "audio_config") if name in config]
    if isinstance(config.get("text_config"), Mapping):
        names += [name for name in config if name.endswith("encoder_config")]
    return [part for name in names if isinstance(part := config[name], Mapping)]


def _plain_encoder(part: Mapping[str, Any], text: int) -> int | None:
    def of(names: tuple[str, ...]) -> int | None:
        found = next((value for name in names if isinstance(value := part.get(name), int) and value > 0), None)
        return None if isinstance(found, bool) else found

    hidden, depth, width = of(_WIDTHS), of(_DEPTHS), of(_NETWORKS)
    if hidden is None or depth is None:
        return None
    ratio = part.get("mlp_ratio")
    width = width or int(hidden * (ratio if isinstance(ratio, int | float) and 0 < ratio < 100 else 4))
    side, patch = of(("image_size",)), of(("patch_size",))
    front = 3 * patch * patch * hidden if patch else 3 * (of(("num_mel_bins",)) or 80) * hidden + 3 * hidden * hidden
    positions = (side // patch) ** 2 * hidden if side and patch else 0
    return front + positions + encoder_layers(hidden, width, depth) + hidden * text + text * text


def git(c: Config) -> ModelSpec:
    """GIT: a text decoder in the manner of BERT that reads patches of a CLIP tower next to its tokens."""
    h, v, heads = c.need("hidden_size"), c.need("vocab_size"), c.need("num_attention_heads")
    vision = c.part("vision_config")
    w, f, patch = vision.need("hidden_size"), vision.need("intermediate_size"), vision.need("patch_size")
    side = vision.need("image_size") // patch
    tower = w + vision.number("num_channels", 3) * patch * patch * w + (side * side + 1) * w + 4 * w
    tower += encoder_layers(w, f, vision.need("num_hidden_layers")) + w * h + 3 * h
    _, network = bert_layer(h, heads, c.need("intermediate_size"))
    mixer = attention(h, heads, heads, h // heads, biases="qkvo").plus(2 * h)
    tied = c.flag("tie_word_embeddings")
    return c.compose(
        [(mixer, network)] * c.need("num_hidden_layers"),
        hidden=h,
        vocab=v,
        tied=tied,
        inputs=(v + c.need("max_position_embeddings")) * h + 2 * h,
        outputs=v * h * (not tied) + v,
        tower_parameters=tower,
        norm="layernorm",
        hidden_act="gelu",
    )
