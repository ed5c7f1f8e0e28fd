"""LMDeploy with TurboMind."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.engine_defaults.base import ENGINES, Defaults, newest
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingLimits

BATCHES: tuple[tuple[tuple[int, ...], dict[str, int]], ...] = (
    ((0, 5), {}),
    ((0, 7), {"a100": 256, "a800": 256, "h100": 512, "h800": 512}),
    ((1 << 20,), {"a100": 384, "a800": 384, "h100": 1024, "h800": 1024, "h200": 1024}),
)
"""Release below which: sequences by start of a device id; 128 elsewhere."""


class Lmdeploy:
    """Defaults of `lmdeploy serve api_server`."""

    name: ClassVar[str] = "LMDeploy"

    def defaults(
        self, version: tuple[int, ...], model: ModelSpec, device: DeviceSpec, shape: Shape, limits: ServingLimits
    ) -> Defaults:
        """See `Engine`."""
        release = newest(version)
        table = next((table for most, table in BATCHES if release < most), BATCHES[-1][1])
        seqs = next((count for start, count in table.items() if device.id.startswith(start)), 128)
        share = 0.5 if version and release < (0, 2, 2) else 0.8
        messages = "LMDeploy messages.py, TurbomindEngineConfig"
        return Defaults(
            policy="lmdeploy",
            max_num_seqs=seqs,
            max_num_batched_tokens=8192,
            block_size=64,
            memory_fraction=share,
            memory_rule="lmdeploy",
            chunked_prefill=False,
            prefix_caching=False,
            cuda_graph_max_batch=0,
            sampler_bytes=8.0,
            sources={
                "sampler_bytes": "assumed; decides no cache: the memory rule does not read activations",
                "max_num_seqs": "LMDeploy utils.py, get_max_batch_size: by device, else 128",
                "max_num_batched_tokens": f"{messages}: max_prefill_token_num 8192",
                "block_size": f"{messages}: cache_block_seq_len 64",
                "memory_fraction": f"{messages}: cache_max_entry_count 0.8 of free memory, 0.5 of all before 0.2.2",
                "chunked_prefill": f"{messages}: num_tokens_per_iter 0",
                "prefix_caching": f"{messages}: off",
                "policy": "LMDeploy turbomind, LlamaBatch",
                "cuda_graph_max_batch": "TurboMind captures none",
            },
        )


ENGINES.add("lmdeploy", Lmdeploy())
