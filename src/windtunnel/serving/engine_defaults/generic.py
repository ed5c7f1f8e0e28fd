"""Any engine with paged cache and chunked prompts, with middle settings; nothing here is one product's."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.engine_defaults.base import ENGINES, Defaults
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingLimits


class Generic:
    """Assumed defaults."""

    name: ClassVar[str] = "a generic engine"

    def defaults(
        self, version: tuple[int, ...], model: ModelSpec, device: DeviceSpec, shape: Shape, limits: ServingLimits
    ) -> Defaults:
        """See `Engine`."""
        chunked = limits.chunked_prefill if limits.chunked_prefill is not None else True
        fields = ("max_num_seqs", "max_num_batched_tokens", "block_size", "memory_fraction", "policy", "sampler_bytes")
        return Defaults(
            policy="vllm_v1",
            max_num_seqs=256,
            max_num_batched_tokens=8192,
            block_size=16,
            memory_fraction=0.9,
            memory_rule="vllm",
            chunked_prefill=chunked,
            prefix_caching=False,
            cuda_graph_max_batch=256,
            sampler_bytes=8.0,
            sources=dict.fromkeys(fields, "assumed"),
        )


ENGINES.add("generic", Generic())
