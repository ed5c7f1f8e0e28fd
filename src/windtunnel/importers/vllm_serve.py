"""`vllm serve` commands, or the YAML file of one, as a scenario.

Names and defaults: vllm-project/vllm `vllm/engine/arg_utils.py` and `vllm/config/`, releases 0.8 to 0.33. Options
without a field are data, `flags/vllm.yaml`.
"""

from __future__ import annotations

import re

from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.server_command import Starts
from windtunnel.importers.server_fields import Pool, model_of
from windtunnel.importers.server_reader import Place, Program, nodes_of
from windtunnel.stacks.weight_formats import served

FORMAT = "vllm"
TITLE = "vllm serve"
PROGRAMS = (
    re.compile(r"(^|[/\s\"'])vllm\s+serve\b", re.MULTILINE),
    re.compile(r"\bvllm\.entrypoints\.cli\.main\s+serve\b"),
    re.compile(r"\bdynamo\.vllm\b"),
    re.compile(r"\bvllm\.entrypoints\.(openai\.|anthropic\.)?api_server\b|\bvllm/entrypoints/openai/api_server\.py\b"),
)
IMAGES = re.compile(r"\S*vllm[-/][\w-]*openai[\w.-]*(:\S+)?|(docker\.io/)?(rocm|vllm)/vllm[\w.-]*(:\S+)?")
"""Images whose entry point is the server."""
SHORT = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-q": "--quantization",
    "-pcp": "--prefill-context-parallel-size",
    "-O": "--optimization-level",
    "-n": "--nnodes",
    "-r": "--node-rank",
}
SIGNS = frozenset({"tensor-parallel-size", "gpu-memory-utilization", "max-num-seqs", "max-num-batched-tokens"})
ROLES = {"kv_producer": "prefill", "kv_consumer": "decode", "kv_both": "mixed"}
METHODS = {
    "ngram": "ngram",
    "draft_model": "draft",
    "eagle": "eagle",
    "eagle3": "eagle",
    "mtp": "mtp",
    "deepseek_mtp": "mtp",
}


STARTS = Starts(patterns=PROGRAMS, images=IMAGES, short=SHORT)
PROGRAM = Program(format="vllm", title=TITLE, starts=STARTS, signs=SIGNS)


def detect(text: str) -> bool:
    """Whether a text starts vLLM."""
    return PROGRAM.place(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a script or a YAML file; problems are collected in the result."""

    def fill(launch: Launch, pool: Pool, number: int) -> tuple[int, Place | None]:
        if number == 0:
            _model(launch, pool, wanted)
        _plan(pool, launch)
        _limits(pool)
        _precision(pool, launch)
        _split(pool)
        _speculation(pool, launch)
        return nodes_of(pool)

    return PROGRAM.read(text, file, wanted, fill)


def _model(launch: Launch, pool: Pool, wanted: Wanted) -> None:
    given, positional = pool.get("model"), pool.positional
    line = pool.line("model") if given is not None else positional[0].line if positional else None
    name = str(given) if given not in (None, True) else positional[0].text if positional else None
    model_of(launch, wanted, name, "the model", line)


def _plan(pool: Pool, launch: Launch) -> None:
    tp = pool.number("tensor-parallel-size") or 1
    pool.field("plan.tp", tp, "tensor-parallel-size")
    pool.count("plan.pp", "pipeline-parallel-size")
    dp = pool.count("plan.dp", "data-parallel-size") or 1
    pool.count("plan.cp", "prefill-context-parallel-size")
    pool.count("plan.dcp", "decode-context-parallel-size")
    experts = pool.on(("enable-expert-parallel",), ("disable-expert-parallel", "no-enable-expert-parallel"))
    if experts is not None and experts[0]:
        pool.field("plan.ep", tp * dp, experts[1])


def _limits(pool: Pool) -> None:
    pool.count("limits.max_num_seqs", "max-num-seqs")
    pool.count("limits.max_num_batched_tokens", "max-num-batched-tokens")
    if pool.get("max-model-len") not in ("auto", -1):
        pool.count("limits.max_model_len", "max-model-len")
    pool.share("limits.gpu_memory_utilization", "gpu-memory-utilization", "device-memory-utilization")
    pool.count("kv.block_size", "block-size")
    pool.count("kv.num_blocks", "num-gpu-blocks-override")
    pool.count("limits.stream_interval", "stream-interval")
    for field, name in (("kv.prefix_caching", "prefix-caching"), ("limits.chunked_prefill", "chunked-prefill")):
        found = pool.on((f"enable-{name}",), (f"disable-{name}", f"no-enable-{name}"))
        if found is not None:
            pool.field(field, *found)
    eager = pool.on(("enforce-eager",), ("no-enforce-eager",))
    if eager is not None:
        pool.field("limits.cuda_graphs", not eager[0], eager[1])
    sizes = pool.items("cudagraph-capture-sizes", "cuda-graph-sizes")
    if sizes:
        pool.field("limits.cuda_graph_sizes", sizes, "cudagraph-capture-sizes", "cuda-graph-sizes")
    pool.count("limits.max_cudagraph_capture_size", "max-cudagraph-capture-size")
    if pool.switch("enable-eplb"):
        pool.put("serving.expert_load.eplb", True, "enable-eplb")
        pool.take("serving.expert_load.num_redundant_experts", "eplb-config.num-redundant-experts", least=0)
        pool.take("serving.expert_load.step_interval", "eplb-config.step-interval")
    if pool.get("scheduling-policy") == "priority":
        pool.field("queue", "priority", "scheduling-policy")
    host = pool.get("kv-offloading-size")
    pool.get("kv-offloading-backend")
    if isinstance(host, int | float) and host:
        tier = {"kind": "host", "capacity_bytes": host * float(1 << 30)}
        pool.field("kv.tiers", [tier], "kv-offloading-size")
    swap = pool.get("swap-space")
    if isinstance(swap, int | float) and swap:
        pool.field("kv.swap_space_bytes", swap * float(1 << 30), "swap-space")


def _precision(pool: Pool, launch: Launch) -> None:
    kind = str(pool.get("quantization") or "")
    stored = served(kind, "vllm")
    if stored is not None and "serving.precision.weights" not in launch.fields:
        pool.put("serving.precision.weights", stored, "quantization")
    elif kind and stored is None:
        pool.leave("no format of weights of this name in a scenario", "quantization")
    pool.dtype_of_weights()
    cache = str(pool.get("kv-cache-dtype") or "auto")
    if cache.startswith("fp8"):
        pool.put("serving.precision.kv_cache", "fp8", "kv-cache-dtype")
    elif cache not in ("auto", "bfloat16", "float16"):
        pool.leave("no format of the cache of this name in a scenario", "kv-cache-dtype")


def _split(pool: Pool) -> None:
    if pool.get("is-prefill-worker") is True:  # Dynamo's own option
        pool.field("role", "prefill", "is-prefill-worker")
    elif pool.get("disaggregation-mode") in ("prefill", "decode"):
        pool.field("role", pool.get("disaggregation-mode"), "disaggregation-mode")
    role = ROLES.get(str(pool.get("kv-transfer-config.kv-role")))
    pool.get("kv-transfer-config.kv-connector")
    if role and role != "mixed":
        pool.field("role", role, "kv-transfer-config.kv-role")


def _speculation(pool: Pool, launch: Launch) -> None:
    given, p = pool.get("speculative-config.method"), "speculative-config."
    if given is None:
        return
    method = METHODS.get(str(given))
    if method is None:
        pool.leave("no drafting of this name in a scenario", p + "method")
        return
    pool.put("serving.speculation.method", method, p + "method")
    pool.take("serving.speculation.tokens", p + "num-speculative-tokens")
    pool.get(p + "prompt-lookup-max", p + "prompt-lookup-min")
    model = pool.get(p + "model")
    if method == "draft" and model is not None:
        pool.put("serving.speculation.draft", str(model), p + "model")
    pool.take("serving.speculation.draft_tp", p + "draft-tensor-parallel-size")
