"""`text-generation-launcher`, or its container, as a scenario.

Names and defaults: huggingface/text-generation-inference `launcher/src/main.rs` (2.x, 3.x). Its engine has no entry of
its own: batches are counted as `generic`'s, which is said. Options without a field are data, `flags/tgi.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.server_command import Starts
from windtunnel.importers.server_fields import Pool, model_of
from windtunnel.importers.server_reader import Place, Program
from windtunnel.stacks.weight_formats import served

FORMAT = "tgi"
TITLE = "text-generation-launcher"
PROGRAMS = (re.compile(r"(^|[/\s\"'])text-generation-launcher\b", re.MULTILINE),)
IMAGES = re.compile(r"\S*text-generation-inference[\w.-]*(:\S+)?")
PROGRAM = Program(
    format=FORMAT,
    title=TITLE,
    starts=Starts(patterns=PROGRAMS, images=IMAGES, short={"-p": "--port"}),
    signs=frozenset({"(none)"}),
    engine="generic",
)


def detect(text: str) -> bool:
    """Whether a text starts text-generation-inference."""
    return PROGRAM.place(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a script; problems are collected in the result."""

    def fill(launch: Launch, pool: Pool, number: int) -> tuple[int, Place | None]:
        if number == 0:
            name = pool.get("model-id")
            model_of(launch, wanted, None if name in (None, True) else str(name), "model-id", pool.line("model-id"))
            launch.assume("serving.engine", "generic", "text-generation-inference has no entry of its own")
        shards = pool.number("num-shard")
        if pool.get("sharded") is True and shards is None:
            launch.wrong("--num-shard", "is required: sharded over all devices that the server sees")
        pool.field("plan.tp", shards or 1, "num-shard")
        pool.count("limits.max_model_len", "max-total-tokens")
        pool.count("limits.max_num_seqs", "max-batch-size")
        pool.count("limits.max_num_batched_tokens", "max-batch-prefill-tokens")
        pool.share("limits.gpu_memory_utilization", "cuda-memory-fraction")
        kind = str(pool.get("quantize") or "")
        stored = served(kind, "tgi")
        if stored is not None and "serving.precision.weights" not in launch.fields:
            pool.put("serving.precision.weights", stored, "quantize")
        elif kind and stored is None:
            launch.leave("quantize", kind, pool.line("quantize"), "no such format of weights", "precision")
        pool.dtype_of_weights()
        if str(pool.get("kv-cache-dtype") or "").startswith("fp8"):
            pool.put("serving.precision.kv_cache", "fp8", "kv-cache-dtype")
        return 1, None

    return PROGRAM.read(text, file, wanted, fill)
