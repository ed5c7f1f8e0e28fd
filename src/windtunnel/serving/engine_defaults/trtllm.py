"""TensorRT-LLM: in-flight batching that never evicts."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.engine_defaults.base import ENGINES, Defaults, newest
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingLimits

PYTORCH_SINCE, LARGE_BATCH_SINCE = (1, 0), (0, 15)
GROUPED_SINCE, ANY_GROUP_SINCE = (0, 8), (0, 11)
ANY_WIDTH_SINCE = (1, 1)
DECODER_BYTES = 16.0
"""Bytes per logit of the largest batch: fp32 logits, probabilities, and sorted values with their ids (top-p)."""
LLM_ARGS = "TensorRT-LLM llmapi/llm_args.py"


class Trtllm:
    """Defaults of `trtllm-serve`."""

    name: ClassVar[str] = "TensorRT-LLM"

    def defaults(
        self, version: tuple[int, ...], model: ModelSpec, device: DeviceSpec, shape: Shape, limits: ServingLimits
    ) -> Defaults:
        """See `Engine`."""
        release = newest(version)
        chunked = bool(limits.chunked_prefill)
        pytorch = release >= PYTORCH_SINCE
        heads = model.num_attention_heads // (model.num_key_value_heads or model.num_attention_heads)
        superchip = device.id.startswith("gb")
        any_width = release >= ANY_WIDTH_SINCE or shape.ep > (model.num_experts_per_tok or 0)
        gathered = shape.dp > 1 and not (superchip and any_width)
        narrow = pytorch and shape.cache_bytes == 1.0 and device.generation == "hopper"
        vector = release < (GROUPED_SINCE if heads == 8 else ANY_GROUP_SINCE)
        return Defaults(
            policy="trtllm_inflight",
            max_num_seqs=2048 if release >= LARGE_BATCH_SINCE else 256,
            max_num_batched_tokens=8192,
            block_size=32 if pytorch else 64,
            memory_fraction=0.9,
            memory_rule="trtllm",
            chunked_prefill=chunked,
            prefix_caching=pytorch,
            cuda_graph_max_batch=128,
            sampler_bytes=0.0 if pytorch else DECODER_BYTES,
            vector_attention=vector,
            gathered=gathered,
            narrow_prompts=narrow,
            sources={
                "sampler_bytes": (
                    "TensorRT-LLM pyexecutor/_util.py: its profile has few, long prompts; before 1.0 the C++ decoder "
                    "keeps logits, probabilities and sorted pairs of the largest batch"
                ),
                "max_num_seqs": "TensorRT-LLM builder.py: max_batch_size 2048 (256 before 0.15)",
                "max_num_batched_tokens": "TensorRT-LLM builder.py: max_num_tokens 8192",
                "block_size": f"{LLM_ARGS}: tokens_per_block 32 (64 in engines built before 1.0)",
                "memory_fraction": f"{LLM_ARGS}: free_gpu_memory_fraction, 0.9 where absent",
                "chunked_prefill": f"{LLM_ARGS}: enable_chunked_prefill false",
                "prefix_caching": f"{LLM_ARGS}: enable_block_reuse true since 1.0",
                "policy": f"{LLM_ARGS}: capacity_scheduler_policy GUARANTEED_NO_EVICT",
                "gathered": (
                    "TensorRT-LLM _torch/modules/fused_moe: all-to-all over multi-node NVLink only (superchips), and "
                    "before 1.1 only with more ranks than experts a token; else all-gather and reduce-scatter"
                ),
                "narrow_prompts": (
                    "TensorRT-LLM cpp/tensorrt_llm/thop/attentionOp.cpp: mFP8ContextFMHA where the cache is in 8 bits "
                    "and paged; engines built before 1.0 take it as a flag (use_fp8_context_fmha). Beyond Hopper "
                    "nothing says by how much that is faster, and rows do not show it"
                ),
                "vector_attention": (
                    "TensorRT-LLM decoderMaskedMultiheadAttention, supportConfig: matrix units for groups of 8 query "
                    "heads since 0.8, for other sizes since 0.11"
                ),
                "cuda_graph_max_batch": f"{LLM_ARGS}: CudaGraphConfig.max_batch_size 128",
            },
        )


ENGINES.add("trtllm", Trtllm())
