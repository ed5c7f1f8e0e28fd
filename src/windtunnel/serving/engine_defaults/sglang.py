"""SGLang: what it derives from device memory, and its radix cache."""

from __future__ import annotations

from typing import ClassVar

from windtunnel.serving.engine_defaults.base import ENGINES, Defaults, newest
from windtunnel.serving.engine_defaults.expert_layouts import mxfp4_layout
from windtunnel.serving.iteration.instance_shape import Shape
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import ServingLimits

MIB = float(1 << 20)
GENERAL_SINCE = (0, 5, 3)
"""Release since which the share of memory follows from chunk and graphs (pull request 10975)."""
PIECEWISE_SINCE, PIECEWISE_MLA = (0, 5, 10), 2048
"""Release since which prompts run captured graphs as well (pull request 16331): up to a chunk, with latent attention up
to so many tokens."""
GRAPHS = ((20, 8, 8), (35, 24, 80), (60, 32, 160), (1 << 20, 256, 512))
"""Device GiB below which: largest captured batch under tp 4, from tp 4 on."""
CHUNKS = ((35, 2048), (60, 4096), (160, 8192), (1 << 20, 16384))
OLD_CHUNKS = ((35, 2048), (160, 8192), (1 << 20, 16384))
OLD_RESERVES = ((35, 2.8, 0.1), (90, 9.5, 0.5), (160, 12.0, 0.5), (1 << 20, 32.0, 0.0))
"""Device GiB below which: GiB kept, and GiB more a device of the instance."""
SERVER_ARGS = "SGLang srt/server_args.py"


def memory_share(
    release: tuple[int, ...], memory_mib: float, devices: int, dp: int, chunk: int, graph_batch: int
) -> float:
    """`mem_fraction_static` when it is not given."""
    if release < GENERAL_SINCE:
        kept, each = next((a, b) for most, a, b in OLD_RESERVES if memory_mib < most * 1024)
        reserved = (kept + devices * each + (4.0 if dp > 1 else 0.0)) * 1024
    else:
        reserved = 512 + max(chunk, 2048) * 1.5 + graph_batch * 2 + devices / 8 * 1024
        if dp > 1:
            reserved += graph_batch * dp * (4.5 if graph_batch > 300 else 3.0)
        if memory_mib > 60 * 1024:
            reserved = max(reserved, 10 * 1024)
    return round((memory_mib - reserved) / memory_mib, 3)


class Sglang:
    """Defaults of `sglang.launch_server`."""

    name: ClassVar[str] = "SGLang"

    def defaults(
        self, version: tuple[int, ...], model: ModelSpec, device: DeviceSpec, shape: Shape, limits: ServingLimits
    ) -> Defaults:
        """See `Engine`."""
        release = newest(version)
        mib = device.memory_bytes / MIB
        new = release >= GENERAL_SINCE
        ranks = shape.tp * shape.dp
        graphs = next(b if ranks >= 4 else a for most, a, b in GRAPHS if mib < most * 1024) if new else 160
        chunk = next(size for most, size in (CHUNKS if new else OLD_CHUNKS) if mib < most * 1024)
        share = memory_share(release, mib, ranks * shape.pp, shape.dp, limits.max_num_batched_tokens or chunk, graphs)
        chunked = limits.chunked_prefill if limits.chunked_prefill is not None else True
        captured = PIECEWISE_MLA if model.is_mla else limits.max_num_batched_tokens or chunk
        page = 64 if model.is_mla and "blackwell" in device.generation else 1
        return Defaults(
            policy="sglang",
            max_num_seqs=2048,
            max_num_batched_tokens=chunk if chunked else 16384,
            block_size=page,
            memory_fraction=share,
            memory_rule="sglang",
            chunked_prefill=chunked,
            prefix_caching=True,
            cuda_graph_max_batch=graphs,
            sampler_bytes=8.0,
            captured_tokens=captured if release >= PIECEWISE_SINCE else 0,
            per_rank=False,
            expert_layout=mxfp4_layout("sglang", release, device),
            sources={
                "sampler_bytes": "assumed; decides no cache: the memory rule does not read activations",
                "max_num_seqs": "SGLang model_runner.py: between 2048 and 4096, by cache and context",
                "max_num_batched_tokens": f"{SERVER_ARGS}: chunked_prefill_size by device memory",
                "block_size": f"{SERVER_ARGS}: page_size 1, 64 for MLA kernels on Blackwell",
                "memory_fraction": f"{SERVER_ARGS}: mem_fraction_static by device memory, chunk and graphs",
                "chunked_prefill": SERVER_ARGS,
                "prefix_caching": f"{SERVER_ARGS}: radix cache on",
                "policy": "SGLang managers/scheduler.py, enable_mixed_chunk off",
                "cuda_graph_max_batch": f"{SERVER_ARGS}: cuda_graph_max_bs",
                "scheduler_interval": f"{SERVER_ARGS}: scheduler_recv_interval 1",
            },
        )


ENGINES.add("sglang", Sglang())
