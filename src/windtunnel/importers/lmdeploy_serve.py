"""`lmdeploy serve api_server` as a scenario.

Names and defaults: InternLM/lmdeploy `lmdeploy/cli/serve.py` and `lmdeploy/messages.py` (0.5 to 0.10). Options without
a field are data, `flags/lmdeploy.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.server_command import Starts
from windtunnel.importers.server_fields import Pool, model_of
from windtunnel.importers.server_reader import Place, Program, nodes_of
from windtunnel.stacks.weight_formats import served

FORMAT = "lmdeploy"
TITLE = "lmdeploy serve api_server"
PROGRAMS = (re.compile(r"(^|[/\s\"'])lmdeploy\s+serve\s+api_server\b", re.MULTILINE),)
CACHE = {4: "int4", 8: "int8"}
PROGRAM = Program(format=FORMAT, title=TITLE, starts=Starts(patterns=PROGRAMS), signs=frozenset({"(none)"}))


def detect(text: str) -> bool:
    """Whether a text starts LMDeploy's server."""
    return PROGRAM.place(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a script; problems are collected in the result."""

    def fill(launch: Launch, pool: Pool, number: int) -> tuple[int, Place | None]:
        words = pool.positional
        if number == 0:
            name = str(pool.get("model-path") or (words[0].text if words else "")) or None
            model_of(launch, wanted, name, "the model", words[0].line if words else pool.line("model-path"))
        pool.field("plan.tp", pool.number("tp") or 1, "tp")
        pool.count("plan.dp", "dp")
        pool.count("plan.cp", "cp")
        pool.count("plan.ep", "ep")
        pool.count("limits.max_num_seqs", "max-batch-size")
        pool.count("limits.max_model_len", "session-len")
        pool.count("limits.max_num_batched_tokens", "max-prefill-token-num")
        pool.count("kv.block_size", "cache-block-seq-len")
        if pool.get("enable-prefix-caching") is True:
            pool.field("kv.prefix_caching", True, "enable-prefix-caching")
        if pool.get("eager-mode") is True:
            pool.field("limits.cuda_graphs", False, "eager-mode")
        share = pool.get("cache-max-entry-count")
        if isinstance(share, float) and 0 < share < 1:
            pool.field("limits.free_gpu_memory_fraction", share, "cache-max-entry-count")
        stored = served(str(pool.get("model-format") or ""), "lmdeploy")
        if stored is not None and "serving.precision.weights" not in launch.fields:
            pool.put("serving.precision.weights", stored, "model-format")
        cache = CACHE.get(pool.get("quant-policy"))
        if cache is not None:
            pool.put("serving.precision.kv_cache", cache, "quant-policy")
        role = str(pool.get("role") or "").lower()
        if role in ("prefill", "decode"):
            pool.field("role", role, "role")
        return nodes_of(pool)

    return PROGRAM.read(text, file, wanted, fill)
