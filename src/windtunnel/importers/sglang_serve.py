"""`sglang.launch_server` commands, or the YAML file of one, as a scenario.

Names and defaults: sgl-project/sglang `python/sglang/srt/server_args.py`, releases 0.4 to 0.5. Its tp-size counts the
ranks of attention data parallelism too. Options without a field are data, `flags/sglang.yaml`.
"""

from __future__ import annotations

import math
import re

from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.server_command import Starts
from windtunnel.importers.server_fields import Pool, model_of
from windtunnel.importers.server_reader import Place, Program, nodes_of
from windtunnel.stacks.weight_formats import served

FORMAT = "sglang"
TITLE = "sglang.launch_server"
PROGRAMS = (
    re.compile(r"\b(sglang[./]launch_server|dynamo\.sglang(\.worker|\.decode_worker)?)\b"),
    re.compile(r"(^|[/\s\"'])sglang\s+serve\b", re.MULTILINE),
)
SHORT = {
    "--tp": "--tp-size",
    "--pp": "--pp-size",
    "--dp": "--dp-size",
    "--ep": "--ep-size",
    "--model": "--model-path",
    "--speculative-algo": "--speculative-algorithm",
}
SIGNS = frozenset({"model-path", "tp-size", "mem-fraction-static", "chunked-prefill-size", "max-running-requests"})
METHODS = {"EAGLE": "mtp", "NEXTN": "mtp", "EAGLE3": "eagle", "STANDALONE": "draft", "NGRAM": "ngram"}


PROGRAM = Program(format="sglang", title=TITLE, starts=Starts(patterns=PROGRAMS, short=SHORT), signs=SIGNS)


def detect(text: str) -> bool:
    """Whether a text starts SGLang."""
    return PROGRAM.place(text) is not None


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a script or a YAML file; problems are collected in the result."""

    def fill(launch: Launch, pool: Pool, number: int) -> tuple[int, Place | None]:
        if number == 0:
            name = pool.get("model-path", "model")
            said, line = pool.said("model-path", "model")
            model_of(launch, wanted, None if name in (None, True) else str(name), said, line)
        _plan(pool)
        _limits(pool)
        _precision(pool, launch)
        if pool.get("disaggregation-mode") in ("prefill", "decode"):
            pool.field("role", pool.get("disaggregation-mode"), "disaggregation-mode")
        _speculation(pool)
        return nodes_of(pool)

    return PROGRAM.read(text, file, wanted, fill)


def _plan(pool: Pool) -> None:
    ranks = pool.number("tp-size", "tensor-parallel-size") or 1
    old = pool.number("dp-size", "data-parallel-size") or 1
    attention = pool.number("attn-dp-size", "attention-data-parallel-size")
    shared = pool.switch("enable-dp-attention")
    cp = pool.count("plan.cp", "attn-cp-size", "attention-context-parallel-size") or 1
    dp = attention or (old if shared else 1)
    said = "attn-dp-size" if attention else "dp-size"
    if ranks % (dp * cp):
        name, line = pool.said(said)
        pool.launch.wrong(name, f"times attn-cp-size {cp} must divide tp-size {ranks}", dp, line)
        return
    pool.field("plan.tp", ranks // (dp * cp), "tp-size", "tensor-parallel-size")
    if dp > 1:
        pool.field("plan.dp", dp, said)
    if old > 1 and not shared:
        pool.field("replicas", old, "dp-size")  # whole copies behind one address
    pool.count("plan.pp", "pp-size", "pipeline-parallel-size")
    pool.count("plan.dcp", "dcp-size", "decode-context-parallel-size")
    pool.count("plan.ep", "ep-size", "expert-parallel-size")


def _limits(pool: Pool) -> None:
    pool.count("limits.max_num_seqs", "max-running-requests")
    chunk = pool.get("chunked-prefill-size")
    if chunk == "-1" or chunk == -1:
        pool.field("limits.chunked_prefill", False, "chunked-prefill-size")
        pool.count("limits.max_num_batched_tokens", "max-prefill-tokens")
    elif chunk is not None:
        pool.count("limits.max_num_batched_tokens", "chunked-prefill-size")
        pool.field("limits.chunked_prefill", True, "chunked-prefill-size")
    pool.count("limits.max_model_len", "context-length")
    pool.share("limits.mem_fraction_static", "mem-fraction-static")
    pool.count("kv.block_size", "page-size")
    pool.count("limits.stream_interval", "stream-interval")
    pool.count("limits.scheduler_interval", "scheduler-recv-interval")
    if pool.switch("disable-radix-cache"):
        pool.field("kv.prefix_caching", False, "disable-radix-cache")
    sizes = pool.items("cuda-graph-bs-decode", "cuda-graph-bs")
    if sizes:
        pool.field("limits.cuda_graph_sizes", sizes, "cuda-graph-bs-decode", "cuda-graph-bs")
    pool.count("limits.max_cudagraph_capture_size", "cuda-graph-max-bs-prefill")
    if pool.switch("enable-eplb"):
        pool.put("serving.expert_load.eplb", True, "enable-eplb")
        pool.take("serving.expert_load.num_redundant_experts", "ep-num-redundant-experts", least=0)
        pool.take("serving.expert_load.step_interval", "eplb-rebalance-num-iterations")
    size = pool.number("hicache-size")
    if pool.switch("enable-hierarchical-cache") and size is not None:
        plan = [pool.launch.fields.get(f"{pool.path}.plan.{axis}", 1) for axis in ("tp", "dp", "pp", "cp")]
        tier = {"kind": "host", "capacity_bytes": size * 1e9 * math.prod(plan)}
        pool.field("kv.tiers", [tier], "hicache-size")
        pool.leave("where a storage lies and how large it is, is configured elsewhere", "hicache-storage-backend")
    pool.get("disable-prefill-cuda-graph")
    for name in ("disable-cuda-graph", "disable-decode-cuda-graph"):
        if pool.switch(name):
            pool.field("limits.cuda_graphs", False, name)
    if pool.switch("enable-priority-scheduling"):
        pool.get("schedule-low-priority-values-first")
        pool.field("queue", "priority", "enable-priority-scheduling")
    elif (order := pool.get("schedule-policy")) is not None and order != "fcfs":
        pool.field("queue", str(order).replace("-", "_"), "schedule-policy")
    if pool.switch("enable-mixed-chunk"):
        pool.leave("mixed batches under SGLang's scheduler have no policy in a scenario", "enable-mixed-chunk")


def _precision(pool: Pool, launch: Launch) -> None:
    kind = str(pool.get("quantization") or "")
    stored = served(kind, "sglang")
    if stored is not None and "serving.precision.weights" not in launch.fields:
        pool.put("serving.precision.weights", stored, "quantization")
    elif kind and stored is None:
        pool.leave("no format of weights of this name in a scenario", "quantization")
    pool.dtype_of_weights()
    cache = str(pool.get("kv-cache-dtype") or "auto")
    if cache.startswith("fp8"):
        pool.put("serving.precision.kv_cache", "fp8", "kv-cache-dtype")
    elif cache not in ("auto", "bf16", "bfloat16"):
        pool.leave("no format of the cache of this name in a scenario", "kv-cache-dtype")


def _speculation(pool: Pool) -> None:
    given, p = pool.get("speculative-algorithm"), "speculative-"
    if given is None:
        return
    method = METHODS.get(str(given).upper())
    model = pool.get(p + "draft-model-path", p + "draft-model")
    if method == "mtp" and given == "EAGLE" and model is not None:
        method = "eagle"  # a head of its own, not the model's layers for multi-token prediction
    if method is None:
        pool.leave("no drafting of this name in a scenario", p + "algorithm")
        return
    pool.put("serving.speculation.method", method, p + "algorithm")
    drafted = pool.number(p + "num-draft-tokens")
    steps = pool.number(p + "num-steps")
    if steps is not None:
        pool.put("serving.speculation.tokens", steps, p + "num-steps")
    elif drafted is not None:
        pool.put("serving.speculation.tokens", max(drafted - 1, 1), p + "num-draft-tokens")
    if (width := pool.number(p + "eagle-topk")) is not None and width > 1:
        pool.leave("drafts are chains in a scenario, not trees", p + "eagle-topk")
    if method == "draft" and model is not None:
        pool.put("serving.speculation.draft", str(model), p + "draft-model-path")
