"""A serving engine with small batches."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.engine_defaults.base import Defaults
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingLimits


class SampleEngine:
    """Defaults that no other engine has."""

    name: ClassVar[str] = "the sample's engine"

    def defaults(
        self, version: tuple[int, ...], model: ModelSpec, device: DeviceSpec, shape: Shape, limits: ServingLimits
    ) -> Defaults:
        """The same for every release, model and device."""
        return Defaults(
            policy="vllm_v1",
            max_num_seqs=7,
            max_num_batched_tokens=2048,
            block_size=16,
            memory_fraction=0.8,
            memory_rule="vllm",
            chunked_prefill=True,
            prefix_caching=False,
            cuda_graph_max_batch=0,
            sampler_bytes=8.0,
            sources={"max_num_seqs": "the sample's documentation"},
        )


ENGINE = SampleEngine()
