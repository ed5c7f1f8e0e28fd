"""`trtllm-serve` commands with their YAML files, or such a file alone, as a scenario.

Names and defaults: NVIDIA/TensorRT-LLM `tensorrt_llm/commands/serve.py` and `llmapi/llm_args.py`, releases 1.0 to 1.2.
With attention data parallelism every rank of tp-size is a rank of it. Options without a field are data,
`flags/trtllm.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.server_command import Starts
from windtunnel.importers.server_fields import Pool, model_of
from windtunnel.importers.server_reader import Place, Program

FORMAT = "trtllm"
TITLE = "trtllm-serve"
PROGRAMS = (
    re.compile(r"\bdynamo\.trtllm\b"),
    re.compile(r"(^|[/\s\"'])trtllm-bench\b(?!(?:(?!trtllm-bench).)*\bbuild\b)", re.MULTILINE),
    re.compile(r"(^|[/\s\"'])trtllm-serve( serve)?(?! disaggregated)\b", re.MULTILINE),
)
SIGNS = frozenset(
    {"kv-cache-config", "cuda-graph-config", "enable-attention-dp", "cache-transceiver-config", "moe-config"}
)
SHORT = {"-m": "--model", "--tp": "--tp-size", "--pp": "--pp-size", "--ep": "--ep-size"}
METHODS = {"MTP": "mtp", "Eagle": "eagle", "Eagle3": "eagle", "NGram": "ngram", "DraftTarget": "draft"}
POLICIES = {"GUARANTEED_NO_EVICT": None, "MAX_UTILIZATION": "trtllm_max_utilization", "STATIC_BATCH": "static"}


PROGRAM = Program(
    format="trtllm",
    title=TITLE,
    starts=Starts(patterns=PROGRAMS, short=SHORT),
    signs=SIGNS,
    least_signs=1,
    files=("config", "extra-llm-api-options"),
)


def detect(text: str) -> bool:
    """Whether a text starts TensorRT-LLM's server, or configures it."""
    return PROGRAM.place(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a script or a YAML file; problems are collected in the result."""

    def fill(launch: Launch, pool: Pool, number: int) -> tuple[int, Place | None]:
        if number == 0:
            words = pool.positional
            name = str(pool.get("model", "model-path") or (words[0].text if words else "")) or None
            model_of(launch, wanted, name, "the model", words[0].line if words else None)
        ranks = _plan(pool)
        _limits(pool, ranks)
        _precision(pool, launch)
        if pool.get("cache-transceiver-config.backend") is not None:
            first = bool(pool.get("disable-overlap-scheduler"))
            name = "disable-overlap-scheduler" if first else "cache-transceiver-config.backend"
            pool.field("role", "prefill" if first else "decode", name)
        _speculation(pool)
        per_node = pool.number("gpus-per-node")
        return (-(-ranks // per_node), pool.said("gpus-per-node")) if per_node else (0, None)

    return PROGRAM.read(text, file, wanted, fill)


def _plan(pool: Pool) -> int:
    """Fill in the axes; returns the devices of the server."""
    names = ("tp-size", "tensor-parallel-size")
    ranks = pool.number(*names) or 1
    shared = pool.get("enable-attention-dp")
    pool.field("plan.dp" if shared else "plan.tp", ranks, *names)
    pp = pool.count("plan.pp", "pp-size", "pipeline-parallel-size") or 1
    cp = pool.count("plan.cp", "cp-size", "context-parallel-size") or 1
    pool.count("plan.ep", "ep-size", "moe-expert-parallel-size")
    return ranks * pp * cp


def _limits(pool: Pool, devices: int) -> None:
    pool.count("limits.max_num_seqs", "max-batch-size")
    pool.count("limits.max_num_batched_tokens", "max-num-tokens")
    pool.count("limits.max_model_len", "max-seq-len")
    pool.share(
        "limits.free_gpu_memory_fraction",
        "kv-cache-config.free-gpu-memory-fraction",
        "kv-cache-free-gpu-memory-fraction",
        "kv-cache-free-gpu-mem-fraction",
        "free-gpu-memory-fraction",
    )
    pool.count("kv.block_size", "kv-cache-config.tokens-per-block")
    pool.count("limits.stream_interval", "stream-interval")
    for field, name in (
        ("kv.prefix_caching", "kv-cache-config.enable-block-reuse"),
        ("limits.chunked_prefill", "enable-chunked-prefill"),
    ):
        value = pool.switch(name)
        if value is not None:
            pool.field(field, value, name)
    host = pool.number("kv-cache-config.host-cache-size")
    if host is not None:
        tier = {"kind": "host", "capacity_bytes": float(host * devices)}
        pool.field("kv.tiers", [tier], "kv-cache-config.host-cache-size")
    if "cuda-graph-config" in pool.values and pool.get("cuda-graph-config") is None:
        pool.field("limits.cuda_graphs", False, "cuda-graph-config")
    for name in ("cuda-graph-config.enable-padding", "cuda-graph-config.max-batch-size"):
        pool.get(name)
    sizes = pool.items("cuda-graph-config.batch-sizes")
    if sizes:
        pool.field("limits.cuda_graph_sizes", sizes, "cuda-graph-config.batch-sizes")
    name = "scheduler-config.capacity-scheduler-policy"
    policy = pool.get(name)
    if policy is not None and POLICIES.get(str(policy)):
        pool.field("policy", POLICIES[str(policy)], name)


def _precision(pool: Pool, launch: Launch) -> None:
    pool.dtype_of_weights()
    if str(pool.get("kv-cache-config.dtype") or "auto").startswith("fp8"):
        pool.put("serving.precision.kv_cache", "fp8", "kv-cache-config.dtype")


def _speculation(pool: Pool) -> None:
    p = "speculative-config."
    given = pool.get(p + "decoding-type")
    if given is None:
        return
    method = METHODS.get(str(given))
    if method is None:
        pool.leave("no drafting of this name in a scenario", p + "decoding-type")
        return
    pool.put("serving.speculation.method", method, p + "decoding-type")
    pool.take("serving.speculation.tokens", p + "num-nextn-predict-layers", p + "max-draft-len")
    pool.get(p + "max-matching-ngram-size")
    model = pool.get(p + "speculative-model-dir", p + "speculative-model")
    if method == "draft" and model is not None:
        pool.put("serving.speculation.draft", str(model), p + "speculative-model-dir")
