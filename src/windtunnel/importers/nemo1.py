"""A configuration of NeMo 1 (`trainer:` and `model:` of its Megatron models) as a scenario.

Names: NVIDIA/NeMo `examples/nlp/language_modeling/conf/megatron_gpt_config.yaml` and kin. Settings of `model` are
Megatron-LM's options by NeMo's names, and are read as such.
"""

from __future__ import annotations

from typing import Any

from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.primus import megatron
from windtunnel.importers.training_tables import names_of, settings_of

FORMAT = "nemo"
TITLE = "NeMo 1 configuration"
OVER = ("megatron_bridge", "trl", "axolotl", "torchtune", "flagscale", "gpt_neox", "megatron")
OWN = frozenset({"model.micro_batch_size", "model.tensor_model_parallel_size", "model.encoder_seq_length"})
RENAMED = {
    "encoder_seq_length": "seq_length",
    "rotary_percentage": "rotary_percent",
    "activations_checkpoint_granularity": "recompute_granularity",
    "activations_checkpoint_method": "recompute_method",
    "activations_checkpoint_num_layers": "recompute_num_layers",
}
MODEL = frozenset(
    "micro_batch_size global_batch_size tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size"
    " expert_model_parallel_size encoder_seq_length max_position_embeddings num_layers hidden_size ffn_hidden_size"
    " num_attention_heads kv_channels hidden_dropout attention_dropout sequence_parallel num_query_groups"
    " activations_checkpoint_granularity activations_checkpoint_method activations_checkpoint_num_layers"
    " rotary_percentage num_moe_experts moe_router_topk fp8_recipe".split()
)
"""Settings of `model` that are Megatron-LM's options; the others have no bearing or are below."""


def detect(text: str) -> bool:
    """Whether a text is a configuration of a Megatron model of NeMo 1."""
    if "trainer:" not in text or "model:" not in text:
        return False
    names = names_of(text)
    return len(names & OWN) >= 2 and bool(names & {"trainer.devices", "trainer.num_nodes", "exp_manager.name"})


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a file; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    s = settings_of(text, launch)
    if launch.problems:
        return launch
    found: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for name, value in s.values.items():
        plain = name.removeprefix("model.")
        if plain in MODEL and name.startswith("model."):
            value = found.get("seq_length") if str(value) == "${.encoder_seq_length}" else value
            key = RENAMED.get(plain, plain)
            found[key], lines[key] = value, s.line(name) or 0
        else:
            launch.ignore(name, str(value), s.line(name))
    if s.get("model.optim.name") == "distributed_fused_adam" or s.get("model.mcore_gpt") is True:
        found["use_distributed_optimizer"] = s.get("model.optim.name") == "distributed_fused_adam"
    found |= {
        "nnodes": s.get("trainer.num_nodes"),
        "nproc_per_node": s.get("trainer.devices"),
        "swiglu": "swiglu" in str(s.get("model.activation")),
        "squared_relu": "squared-relu" in str(s.get("model.activation")),
        "normalization": "RMSNorm" if "rms" in str(s.get("model.normalization")) else "LayerNorm",
        "disable_bias_linear": s.get("model.bias") is False,
        "untie_embeddings_and_output_weights": s.get("model.share_embeddings_and_output_weights") is False,
        "position_embedding_type": s.get("model.position_embedding_type") or "learned_absolute",
        "group_query_attention": isinstance(found.get("num_query_groups"), int),
        "fp8": "hybrid" if s.get("model.fp8") is True else None,
        **_precision(str(s.get("trainer.precision"))),
    }
    if found.get("num_query_groups") in (None, "null"):
        found.pop("num_query_groups", None)
    if isinstance(experts := found.pop("num_moe_experts", None), int):
        found["num_experts"] = experts
    megatron(launch, found, lines, wanted, "", {"tokenizer_type": _tokenizer(s.get("model.tokenizer.library"))})
    launch.set("training.framework", wanted.framework or "nemo", "NeMo 1")
    return launch


def _precision(text: str) -> dict[str, bool]:
    return {"bf16": "bf16" in text, "fp16": text.startswith("16")}


def _tokenizer(library: Any) -> str:
    """Megatron-LM's type of a tokenizer, whose usual vocabulary stands in."""
    return "SentencePieceTokenizer" if library == "sentencepiece" else "GPT2BPETokenizer"
