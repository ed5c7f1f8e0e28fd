"""What the code of a model type, not its configuration file, decides: norm, gating, biases, positions."""

from __future__ import annotations

from typing import Any

_GPT = {"gated_mlp": False, "norm": "layernorm", "hidden_act": "gelu", "attention_bias": True, "mlp_bias": True}
_LEARNED = {**_GPT, "position_embedding": "learned", "tie_word_embeddings": True}
_COHERE = {"norm": "layernorm", "parallel_block": True, "tie_word_embeddings": True}
_GEMMA = {"hidden_act": "gelu", "tie_word_embeddings": True}
_MLA = {"family": "mla_moe"}

TRAITS: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "mixtral": {},
    "olmo": {},
    "internlm": {},
    "internlm2": {},
    "granite": {},
    "yi": {},
    "granitemoe": {},
    "phi3": {},
    "ministral": {},
    "mistral3": {},
    "baichuan": {},
    "minicpm": {},
    "exaone": {},
    "seed_oss": {},
    "ernie4_5": {},
    "ernie4_5_moe": {},
    "smollm3": {},
    "llama4_text": {},
    "llama4": {},
    "qwen2": {"attention_bias": True},
    "qwen2_moe": {"attention_bias": True},
    "qwen3": {"qk_norm": True},
    "qwen3_moe": {"qk_norm": True},
    "qwen3_next": {"family": "hybrid", "qk_norm": True, "attention_output_gate": True},
    "qwen3_5_moe": {"family": "hybrid", "qk_norm": True, "attention_output_gate": True},
    "qwen3_5_moe_text": {"family": "hybrid", "qk_norm": True, "attention_output_gate": True},
    "hunyuan_v1_dense": {"qk_norm": True},
    "hunyuan_v1_moe": {"qk_norm": True},
    "olmo2": {"qk_norm": True},
    "olmo3": {"qk_norm": True},
    "olmoe": {"qk_norm": True},
    "gemma": _GEMMA,
    "gemma2": {**_GEMMA, "post_norm": True, "sliding_window_pattern": 2},
    "gemma3": {**_GEMMA, "post_norm": True, "qk_norm": True, "sliding_window_pattern": 6},
    "phi": {**_GPT, "parallel_block": True},
    "phimoe": {"norm": "layernorm", "attention_bias": True},
    "gpt2": _LEARNED,
    "gpt_bigcode": _LEARNED,
    "opt": {**_LEARNED, "hidden_act": "relu"},
    "gpt_neo": {**_LEARNED, "attention_bias": False},
    "codegen": {**_GPT, "parallel_block": True, "attention_bias": False},
    "gpt_neox": {**_GPT, "parallel_block": True},
    "gptj": {**_GPT, "parallel_block": True, "attention_bias": False},
    "bloom": {**_GPT, "position_embedding": "alibi", "tie_word_embeddings": True},
    "mpt": {
        "gated_mlp": False,
        "norm": "layernorm",
        "hidden_act": "gelu",
        "tie_word_embeddings": True,
        "position_embedding": "learned",
    },
    "falcon": {
        "gated_mlp": False,
        "norm": "layernorm",
        "hidden_act": "gelu",
        "tie_word_embeddings": True,
        "parallel_block": True,
    },
    "dbrx": {"norm": "layernorm"},
    "stablelm": {"norm": "layernorm"},
    "starcoder2": {**_GPT},
    "cohere": _COHERE,
    "cohere2": {**_COHERE, "sliding_window_pattern": 4},
    "deepseek_v2": _MLA,
    "deepseek_v3": _MLA,
    "kimi_k2": _MLA,
    "deepseek_v32": _MLA,
    "glm_moe_dsa": _MLA,
    "glm4": {"attention_bias": True},
    "glm4_moe": {"attention_bias": True},
    "chatglm": {"attention_bias": True},
    "minimax_m2": {"qk_norm": True},
    "gpt_oss": {
        "attention_bias": True,
        "mlp_bias": True,
        "attention_sinks": True,
        "sliding_window_pattern": 2,
        "hidden_act": "clamped_silu",
    },  # swiglu_limit
    "nemotron": {"gated_mlp": False, "norm": "layernorm", "hidden_act": "relu2"},
    "nemotron_h": {"family": "hybrid", "gated_mlp": False, "hidden_act": "relu2", "position_embedding": "none"},
    "t5": {
        "family": "encoder_decoder",
        "gated_mlp": False,
        "hidden_act": "relu",
        "position_embedding": "relative",
        "tie_word_embeddings": True,
    },
    "bert": {**_LEARNED, "family": "encoder"},
    "roberta": {**_LEARNED, "family": "encoder"},
    "distilbert": {**_LEARNED, "family": "encoder"},
    "electra": {**_LEARNED, "family": "encoder"},
    "vit": {**_GPT, "family": "vit", "position_embedding": "learned"},
}
"""`model_type` → what the model's code, not its config, decides."""

TRAITS |= {
    "apertus": {"gated_mlp": False, "qk_norm": True, "hidden_act": "xielu"},
    "arcee": {"gated_mlp": False, "hidden_act": "relu2"},
    "jais2": {"gated_mlp": False, "norm": "layernorm", "hidden_act": "relu2", "attention_bias": True, "mlp_bias": True},
    "nanochat": {"gated_mlp": False, "hidden_act": "relu2"},
    "moshi": {},
    "persimmon": {**_GPT, "qk_norm": True, "tie_word_embeddings": False, "hidden_act": "relu2"},
    "fuyu": {**_GPT, "qk_norm": True, "tie_word_embeddings": False, "hidden_act": "relu2"},
    "gpt_neox_japanese": {**_GPT, "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True},
    "openai-gpt": _LEARNED,
    "ctrl": {**_GPT, "hidden_act": "relu", "position_embedding": "none", "tie_word_embeddings": True},
    "xglm": {**_GPT, "position_embedding": "none", "tie_word_embeddings": True},
    "xlm": _LEARNED,
    "biogpt": _LEARNED,
    "axk1": _MLA,
    "glm4_moe_lite": _MLA,
    "afmoe": {"qk_norm": True, "post_norm": True, "attention_output_gate": True},
    "beam": {"qk_norm": True, "post_norm": True, "attention_output_gate": True},
    "flint": {"qk_norm": True, "attention_sinks": True},
    "laguna": {"qk_norm": True},
    "hy_v3": {"qk_norm": True},
    "qwen3_5": {"family": "hybrid", "qk_norm": True, "attention_output_gate": True},
    "qwen3_5_text": {"family": "hybrid", "qk_norm": True, "attention_output_gate": True},
    "gemma4_unified": {**_GEMMA, "post_norm": True, "qk_norm": True},
    "gemma4_unified_text": {**_GEMMA, "post_norm": True, "qk_norm": True},
    "got_ocr2": {"attention_bias": True, "tie_word_embeddings": True},
    "phi4_multimodal": {},
    "moss_transcribe_diarize": {"qk_norm": True},
}
for _kind in (
    "bert-generation",
    "big_bird",
    "camembert",
    "data2vec-text",
    "ernie",
    "megatron-bert",
    "roberta-prelayernorm",
    "xlm-roberta-xl",
):
    TRAITS[_kind] = {**_LEARNED, "family": "encoder"}
TRAITS["roformer"] = {**TRAITS["bert"], "position_embedding": "rope"}
TRAITS["gemma3_text"] = TRAITS["gemma3"]
TRAITS["mt5"] = TRAITS["umt5"] = TRAITS["t5"]
TRAITS["xlm-roberta"] = TRAITS["roberta"]

_GEMMA3 = {"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256}
DEFAULTS: dict[str, dict[str, Any]] = {"gemma3": _GEMMA3, "gemma3_text": _GEMMA3, "gemma": {"head_dim": 256}}
"""Dimensions that published files of a type leave out because they equal the library's default (transformers 4.50)."""

READ_BY_MEANING = frozenset(
    {
        "aria_text",
        "bitnet",
        "cohere2_moe",
        "cwm",
        "diffllama",
        "emu3",
        "exaone4",
        "exaone_moe",
        "flex_olmo",
        "glm",
        "gpt-sw3",
        "granite_swa",
        "granitemoe_swa",
        "granitemoeshared",
        "helium",
        "hyperclovax",
        "internlm3",
        "iquestcoder",
        "kolibri1",
        "mellum",
        "minicpm3",
        "minimax_m3_vl_text",
        "ministral3",
        "mllama",
        "modernbert-decoder",
        "olmo_hybrid",
        "solar_open",
        "vaultgemma",
        "youtu",
    }
)
"""Types without traits of their own whose fields, read by meaning, give the count that transformers 5.23 has."""

REFUSED: dict[str, str] = {
    "blt": "is four networks over bytes and patches, which no single stack of layers stands for",
    "reformer": "hashes its attention into buckets and reverses its layers, which no sub-block here stands for",
}
"""Types that are known and not modelled, each with the reason."""

FOREIGN = (
    "mamba",
    "ssm",
    "conv",
    "lora_rank",
    "latent",
    "recurrent",
    "lru",
    "linear_attn",
    "linear_num",
    "altup",
    "laurel",
    "compress",
    "hc_",
    "zero_expert",
    "per_layer",
    "adapter",
    "encoder",
    "decoder_layers",
    "cross_attention_layers",
    "layers_block_type",
    "block_types",
    "embedding_size",
    "state_size",
    "time_step",
    "dim_factor",
    "per_stack",
    "_cycles",
    "expert_layer",
    "indexer",
    "is_moe",
    "pronunciation",
    "swa_",
    "intermediate_size_mlp",
    "attn_type",
    "block_configs",
    "parallel_attn_mlp",
    "ffn_multipliers",
    "vision_config",
    "audio_config",
)
"""Parts of field names that stand for something else than a Llama-like decoder, in a type that is not known."""

TOLD_BY_ABSENCE = ("is_moe",)
"""Fields that say something even where they are false."""

GATED = frozenset({"silu", "swish", "swiglu"})
"""Activations that unknown types use in gated networks alone."""

HARMLESS = frozenset(
    {"is_encoder_decoder", "encoder_no_repeat_ngram_size", "cross_attention_hidden_size", "hybrid_override_pattern"}
)
"""Fields that every file may have, whatever its type."""
