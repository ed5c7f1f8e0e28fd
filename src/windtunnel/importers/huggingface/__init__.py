"""Model types of Hugging Face configurations: tables of what their code decides, and readers of families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from windtunnel.importers.huggingface.network import Config
from windtunnel.specs.model import ModelSpec

READERS: dict[str, str] = {
    "axk2": "latent.axk_2",
    "bailing_hybrid": "linear_attention.bailing_hybrid",
    "bamba": "state_space.bamba",
    "bart": "decoders_with_cross_attention.decoder",
    "bigbird_pegasus": "decoders_with_cross_attention.decoder",
    "blenderbot": "decoders_with_cross_attention.decoder",
    "blenderbot-small": "decoders_with_cross_attention.decoder",
    "cpmant": "single_types.cpm_ant",
    "deci": "searched_blocks.nemotron_nas",
    "deepseek_ref": "latent.deepseek_v4",
    "deepseek_v4": "latent.deepseek_v4",
    "doge": "single_types.doge",
    "dory": "single_types.dory",
    "dots3_note": "latent.dots3",
    "dots3_note_text": "latent.dots3",
    "electra": "encoders.electra",
    "falcon_h1": "state_space.falcon_h1",
    "falcon_mamba": "state_space.mamba",
    "gemma3n_text": "gemma.gemma_3n",
    "git": "towers.git",
    "glm5_next_text": "latent.glm_5_next",
    "granitemoehybrid": "state_space.granite_hybrid",
    "hrm_text": "single_types.hrm",
    "hy_v4": "latent.hunyuan_4",
    "hy_v4_vl_text": "latent.hunyuan_4",
    "inkling2_text": "inkling.inkling_2",
    "inkling_text": "inkling.inkling",
    "jamba": "state_space.jamba",
    "jetmoe": "single_types.jetmoe",
    "kimi_linear": "linear_attention.kimi_linear",
    "lara_mini": "single_types.lara_mini",
    "lfm2": "recurrent.lfm2",
    "lfm2_moe": "recurrent.lfm2_moe",
    "lfm3": "recurrent.lfm3",
    "longcat_flash": "latent.longcat_flash",
    "mamba": "state_space.mamba",
    "mamba2": "state_space.mamba_2",
    "marian": "decoders_with_cross_attention.decoder",
    "mbart": "decoders_with_cross_attention.decoder",
    "mimo_v2": "single_types.mimo_v2",
    "mimo_v2_flash": "single_types.mimo_v2",
    "mistral_large4_text": "latent.mistral_large_4",
    "step3p5": "single_types.step_3_5",
    "step3p7": "single_types.step_3_5",
    "minimax": "linear_attention.minimax",
    "minimax_m1": "linear_attention.minimax",
    "minimax_text_01": "linear_attention.minimax",
    "muse_spark_text": "single_types.muse_spark",
    "mvp": "decoders_with_cross_attention.decoder",
    "nemotron-nas": "searched_blocks.nemotron_nas",
    "pegasus": "decoders_with_cross_attention.decoder",
    "plbart": "decoders_with_cross_attention.decoder",
    "prophetnet": "decoders_with_cross_attention.prophetnet",
    "recurrent_gemma": "recurrent.recurrent_gemma",
    "rembert": "encoders.rembert",
    "roc_bert": "encoders.roc_bert",
    "rwkv": "recurrent.rwkv",
    "trocr": "decoders_with_cross_attention.decoder",
    "whisper": "decoders_with_cross_attention.decoder",
    "xlnet": "single_types.xlnet",
    "xlstm": "recurrent.xlstm",
    "xmod": "encoders.xmod",
    "zamba": "state_space.zamba",
    "zamba2": "state_space.zamba_2",
    "zaya": "single_types.zaya",
}
"""`model_type` → file and function of its reader; a type that is not here is read by its traits."""


def reader_of(config: Mapping[str, Any]) -> Callable[[Config], ModelSpec] | None:
    """The reader of a configuration's type, or None where it is read by its traits."""
    kind = str(config.get("model_type") or "")
    if kind not in READERS and isinstance(config.get("block_configs"), list):
        return _load("searched_blocks.nemotron_nas")
    text = config.get("text_config")
    text = text if isinstance(text, Mapping) else config
    if (
        kind.startswith("gemma4")
        and (text.get("hidden_size_per_layer_input") or text.get("num_kv_shared_layers"))
        and not text.get("enable_moe_block")
    ):
        return _load("gemma.gemma_4")
    if kind == "nemotron_h" and (not config.get("hybrid_override_pattern") or config.get("moe_latent_size")):
        return _load("state_space.nemotron_h")
    if isinstance(config.get("text_config"), Mapping) and kind == "step3p7":
        return None
    return _load(READERS[kind]) if kind in READERS else None


def _load(address: str) -> Callable[[Config], ModelSpec]:
    file, function = address.split(".")
    reader: Callable[[Config], ModelSpec] = getattr(import_module(f"{__name__}.{file}"), function)
    return reader
