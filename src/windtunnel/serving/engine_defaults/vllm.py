"""vLLM: V0 up to 0.7, V1 since 0.8."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.engine_defaults.base import ENGINES, GIB, Defaults, newest
from windtunnel.serving.engine_defaults.expert_layouts import mxfp4_layout
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingLimits

V1, NO_A100, UTILIZATION_92 = (0, 8), (0, 9), (0, 21)
LONG_CONTEXT_SINCE, CHUNK_2048_SINCE = (0, 5, 5), (0, 6, 5)
LARGE_DEVICE_BYTES = 70 * GIB
SAMPLER_V0, SAMPLER_V1, SAMPLER_LEAN = 39.0, 38.4, 31.0
"""Bytes per logit: 16-bit and fp32 logits, sorted values and 64-bit indices, softmax, cumulative sum, masks. Start-up
logs: V0 took 1.19 GiB for 256 rows of 128,256 logits and 1.40 GiB for 256 of 151,936; V1 (0.11) 4.76, 5.56 and 7.38 GiB
for 1,024 of 128,256, 151,936 and 201,088 (llm-d-incubation/llm-d-planner docs/empirical-vllm-memory-results.md); from
0.15 on kernels that do not sort."""
LEAN_SAMPLER_SINCE = (0, 15)


class Vllm:
    """Defaults of `vllm serve`."""

    name: ClassVar[str] = "vLLM"

    def defaults(
        self, version: tuple[int, ...], model: ModelSpec, device: DeviceSpec, shape: Shape, limits: ServingLimits
    ) -> Defaults:
        """See `Engine`."""
        release = newest(version)
        if release < V1:
            return self._v0(release, model, limits)
        chunked = limits.chunked_prefill if limits.chunked_prefill is not None else True
        a100 = release >= NO_A100 and device.id.startswith(("a100", "a800"))
        large = device.memory_bytes >= LARGE_DEVICE_BYTES and not a100
        batched, seqs = (8192, 1024) if large else (2048, 256)
        longest = limits.max_model_len or model.max_position_embeddings
        if not chunked:
            batched = max(batched, longest)
        seqs = min(seqs, limits.max_num_batched_tokens or batched)
        where = (
            "vLLM engine/arg_utils.py, get_batch_defaults (API server): 8192 and 1024 from 70 GiB, else 2048 and 256"
        )
        return Defaults(
            policy="vllm_v1",
            max_num_seqs=seqs,
            max_num_batched_tokens=batched,
            block_size=16,
            memory_fraction=0.92 if release >= UTILIZATION_92 else 0.9,
            memory_rule="vllm",
            chunked_prefill=chunked,
            prefix_caching=True,
            cuda_graph_max_batch=512,
            sampler_bytes=SAMPLER_V1 if release < LEAN_SAMPLER_SINCE else SAMPLER_LEAN,
            captured_tokens=min(2 * (limits.max_num_seqs or seqs), 512),
            fused_casts=True,
            expert_layout=mxfp4_layout("vllm", release, device),
            fits_longest=True,
            sources={
                "max_num_seqs": where,
                "max_num_batched_tokens": where + "; A100 counts as small since 0.9",
                "fused_casts": "vLLM config/compilation.py, PassConfig: fuse_norm_quant, fuse_act_quant",
                "block_size": "vLLM config/cache.py",
                "chunked_prefill": "vLLM V1: always on unless switched off",
                "memory_fraction": "vLLM config/cache.py: 0.9, and 0.92 in releases that count CUDA graphs (0.21)",
                "prefix_caching": "vLLM config/cache.py: on in V1",
                "policy": "vLLM v1/core/sched/scheduler.py",
                "cuda_graph_max_batch": "vLLM config/vllm.py: min(2 · max_num_seqs, 512)",
            },
        )

    def _v0(self, release: tuple[int, ...], model: ModelSpec, limits: ServingLimits) -> Defaults:
        longest = limits.max_model_len or model.max_position_embeddings
        chunked = limits.chunked_prefill
        if chunked is None:
            chunked = release >= LONG_CONTEXT_SINCE and longest > 32768 and not model.sliding_window
        batched = (2048 if release >= CHUNK_2048_SINCE else 512) if chunked else max(longest, 2048)
        return Defaults(
            policy="vllm_v0_chunked" if chunked else "vllm_v0",
            max_num_seqs=256,
            max_num_batched_tokens=batched,
            block_size=16,
            memory_fraction=0.9,
            memory_rule="vllm",
            chunked_prefill=chunked,
            prefix_caching=False,
            cuda_graph_max_batch=256,
            sampler_bytes=SAMPLER_V0,
            fits_longest=True,
            sources={
                "max_num_seqs": "vLLM 0.6 engine/arg_utils.py: 256",
                "max_num_batched_tokens": "vLLM 0.6 config.py: 512 in chunks, 2048 since 0.6.5; else max_model_len",
                "block_size": "vLLM 0.6 engine/arg_utils.py",
                "memory_fraction": "vLLM 0.6 engine/arg_utils.py: 0.90",
                "chunked_prefill": "vLLM 0.6 engine/arg_utils.py: on above 32,768 tokens of context since 0.5.5",
                "prefix_caching": "vLLM 0.6: off",
                "policy": "vLLM 0.6 core/scheduler.py",
                "cuda_graph_max_batch": "vLLM 0.6 worker/model_runner.py: 256",
            },
        )


ENGINES.add("vllm", Vllm())
