"""Names that other programs use for the fields and values of a scenario, for hints in error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

SPELLINGS: dict[str, str] = {
    "tensor_model_parallel_size": "tp",
    "tensor_parallel_size": "tp",
    "tensor_parallel_degree": "tp",
    "pipeline_model_parallel_size": "pp",
    "pipeline_parallel_size": "pp",
    "pipeline_parallel_degree": "pp",
    "virtual_pipeline_model_parallel_size": "vpp",
    "context_parallel_size": "cp",
    "context_parallel_degree": "cp",
    "expert_model_parallel_size": "ep",
    "expert_parallel_size": "ep",
    "expert_parallel_degree": "ep",
    "expert_tensor_parallel_size": "etp",
    "data_parallel_size": "dp",
    "data_parallel_shard_degree": "shard_group",
    "sequence_parallel": "sp",
    "zero_stage": "zero",
    "zero_optimization": "zero",
    "micro_batch_size": "mbs",
    "per_device_train_batch_size": "mbs",
    "train_micro_batch_size_per_gpu": "mbs",
    "local_batch_size": "mbs",
    "global_batch_size": "global_batch",
    "train_batch_size": "global_batch",
    "gbs": "global_batch",
    "seq_length": "seq_len",
    "sequence_length": "seq_len",
    "max_seq_length": "seq_len",
    "max_seq_len": "seq_len",
    "activation_checkpointing": "recompute",
    "gradient_checkpointing": "recompute",
    "recompute_granularity": "recompute",
    "gpus": "devices_per_node",
    "gpus_per_node": "devices_per_node",
    "num_gpus": "devices_per_node",
    "num_nodes": "nodes",
    "gpu": "device",
    "dtype": "precision",
    "memory": "memory_fraction",
    "memory_limit": "memory_fraction",
    "max_memory": "memory_fraction",
    "qps": "rate_per_s",
    "request_rate": "rate_per_s",
    "max_concurrency": "concurrency",
    "num_prompts": "num_requests",
    "megatron": "megatron_core",
    "megatron-lm": "megatron_core",
    "megatron_lm": "megatron_core",
    "mcore": "megatron_core",
    "fsdp": "fsdp1",
    "fsdp2": "torchtitan",
    "pytorch": "torchtitan",
    "maxtext": "jax",
    "primus": "rocm_megatron",
    "tensorrt-llm": "trtllm",
    "tensorrt_llm": "trtllm",
    "fp16_mixed": "fp16",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8": "fp8",
}
"""What people write → what a scenario calls it."""


def spelling(name: str, known: Iterable[str]) -> str | None:
    """The known name that another program's word stands for; None where there is none."""
    meant = SPELLINGS.get(name.casefold().replace("-", "_")) or SPELLINGS.get(name.casefold())
    return meant if meant in set(known) else None


_NOT_SIMULATED = {
    r"(enable_)?loras?|(max_)?loras?_\w+|adapters?|max_(cpu_)?loras": (
        "adapters of requests (LoRA) are not simulated: no products, memory or loading of adapters; a model with one "
        "merged adapter is served as the model"
    ),
    r"structured_outputs?|guided_\w+|grammars?|json_schema|response_format|regex": (
        "structured output is not simulated: no compiling of grammars and no masks of tokens"
    ),
    r"images?|images_per_\w+|videos?|audios?|multi_?modal\w*|(limit_)?mm_\w+|vision\w*": (
        "images, video and audio in prompts are not simulated: count their tokens in input_tokens; their towers' time "
        "and memory are missing"
    ),
    r"embeddings?|pooling|pooler|rerank\w*|scor(e|ing)|classif\w+|is_embedding|task": (
        "embedding, reranking and classification are not simulated: every request generates tokens"
    ),
    r"n|best_of|num_samples|samples|num_return_sequences|use_beam_search|beam_width": (
        "several answers to one prompt (n, beams) are not simulated: send the prompt n times with "
        "shared_prefix_tokens and prefix caching"
    ),
}
"""Names of fields of serving that people expect, as patterns → what is not simulated, and what to write instead."""


def not_simulated(path: str, name: str) -> str | None:
    """What an unknown field of a serving section asks for that is not simulated, in words; None for other fields."""
    if not path.startswith("serving."):
        return None
    plain = name.casefold().replace("-", "_")
    return next((why for pattern, why in _NOT_SIMULATED.items() if re.fullmatch(pattern, plain)), None)
