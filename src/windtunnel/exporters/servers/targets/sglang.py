"""SGLang: `sglang.launch_server`, sglang-router in front of several servers or of prefill and decode servers.

Sources: options, `flags/sglang-<version>.yaml`; what they mean and which numbers are refused,
`sglang/srt/server_args.py` and `arg_groups/` of the same releases (tp-size counts the ranks of attention data and
context parallelism; limits of a batch hold for all of them together); `sglang_router/router_args.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windtunnel.exporters.servers import checks
from windtunnel.exporters.servers.front import ROUTER_POLICIES, command, in_front, workers
from windtunnel.exporters.servers.naming import STAND_IN, checkpoint
from windtunnel.exporters.servers.precision import cast
from windtunnel.exporters.servers.target import SERVER_TARGETS, Server, ServerDraft, ServerTarget
from windtunnel.exporters.target import options
from windtunnel.techniques.knobs import named

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.exporters.servers.deployed import Deployed, Pool
    from windtunnel.exporters.target import OptionList

PORTS = {"mixed": 30000, "prefill": 30100, "decode": 30200}
DIST_PORT, BOOTSTRAP_OFFSET = 20000, 1000
ALGORITHMS = {"draft": "STANDALONE", "mtp": "EAGLE", "eagle": "EAGLE3", "ngram": "NGRAM"}
"""`speculation.method` → its word; layers for multi-token prediction are drafted by its EAGLE worker."""


def check(deployed: Deployed, problems: ProblemList) -> None:
    """Everything that SGLang refuses about these numbers when it starts."""
    checks.splits(deployed, problems)


def write(deployed: Deployed, known: OptionList) -> ServerDraft:
    """The servers of a deployment."""
    draft = ServerDraft(known)
    for pool in deployed.pools:
        program = ["python3", "-m", "sglang.launch_server"]
        server = Server(pool=pool, nodes=deployed.nodes(pool), per_node=deployed.per_node(pool), program=list(program))
        server.port = PORTS[pool.spec.role]
        draft.set(server, "--model-path", '"$MODEL"')
        draft.set(server, "--host", "0.0.0.0")
        draft.set(server, "--port", '"$PORT"')
        _axes(deployed, pool, server, draft)
        _limits(deployed, pool, server, draft)
        _precision(deployed, server, draft)
        load = deployed.serving.expert_load
        if load is not None and load.eplb:
            if load.placement == "near":
                draft.lacks("expert_load.placement near: copies are placed by load alone")
            draft.set(server, "--enable-eplb")
            draft.set(server, "--ep-num-redundant-experts", load.num_redundant_experts)
            draft.set(server, "--eplb-rebalance-num-iterations", load.step_interval)
        _speculation(deployed, server, draft)
        if pool.spec.role != "mixed":
            draft.set(server, "--disaggregation-mode", pool.spec.role)
            draft.set(server, "--disaggregation-transfer-backend", "nixl")
            if pool.spec.role == "prefill":
                draft.set(server, "--disaggregation-bootstrap-port", f'"$((PORT + {BOOTSTRAP_OFFSET}))"')
        draft.servers.append(server)
    checkpoint(deployed, draft)
    in_front(deployed, draft, _router)
    return draft


def _axes(deployed: Deployed, pool: Pool, server: Server, draft: ServerDraft) -> None:
    plan = pool.spec.plan
    draft.set(server, "--tp-size", plan.tp * plan.dp * plan.cp)
    if plan.pp > 1:
        draft.set(server, "--pp-size", plan.pp)
    if plan.dp > 1 and "--attn-dp-size" in draft.known.kinds:
        draft.set(server, "--attn-dp-size", plan.dp)
    elif plan.dp > 1:
        draft.set(server, "--dp-size", plan.dp)
        draft.set(server, "--enable-dp-attention")
    if plan.cp > 1:
        draft.set(server, "--attn-cp-size", plan.cp)
    checks.unsaid(pool, draft)
    if plan.dcp > 1:
        draft.set(server, "--dcp-size", plan.dcp)
    if plan.ep > 1:
        draft.set(server, "--ep-size", plan.ep)
        _exchange(pool, server, draft)
    if server.nodes > 1:
        draft.set(server, "--nnodes", server.nodes)
        draft.set(server, "--node-rank", '"$NODE_RANK"')
        draft.set(server, "--dist-init-addr", f'"$LEADER:$(({DIST_PORT} + INSTANCE))"')


def _exchange(pool: Pool, server: Server, draft: ServerDraft) -> None:
    """How ranks with attention of their own send tokens to experts, as it was priced; SGLang's own is a gather of all.

    Names: docs.sglang.io, advanced_features/expert_parallelism. `auto` takes DeepEP's normal kernels for prompts and
    those of low latency for decode steps, which one server does alone where prompts and answers are split.
    """
    plan = pool.spec.plan
    if plan.dp == 1 or pool.instance.shape.gathered:
        return
    if plan.ep != plan.tp * plan.dp * plan.cp:
        draft.lacks(f"{pool.name}: ep {plan.ep}: all-to-alls of experts need ep = tp · dp; tokens are gathered instead")
        return
    amd = pool.cluster.device.vendor.lower() == "amd"
    backend = "mori" if amd and "mori" in draft.known.choices["--moe-a2a-backend"] else "deepep"
    if not draft.set(server, "--moe-a2a-backend", backend):
        return
    draft.note(f"{pool.name}: --moe-a2a-backend {backend} needs its kernels installed next to SGLang")
    if backend == "deepep":
        modes = {"prefill": "normal", "decode": "low_latency"}
        draft.set(server, "--deepep-mode", modes.get(pool.spec.role, "auto"))


def _limits(deployed: Deployed, pool: Pool, server: Server, draft: ServerDraft) -> None:
    told, instance = pool.spec.limits, pool.instance
    own = deployed.serving.engine == "sglang"
    draft.set(server, "--max-running-requests", instance.limits.max_seqs)
    draft.set(server, "--chunked-prefill-size", instance.limits.budget if instance.limits.chunked else -1)
    if not instance.limits.chunked:
        draft.set(server, "--max-prefill-tokens", instance.limits.budget)
    if told.max_model_len:
        draft.set(server, "--context-length", told.max_model_len)
    if told.mem_fraction_static or own:
        draft.set(server, "--mem-fraction-static", f"{told.mem_fraction_static or instance.defaults.memory_fraction:g}")
    else:
        draft.note(f"the simulated memory knob is {deployed.serving.engine}'s: SGLang's own share of memory applies")
    if pool.spec.kv.block_size or own:
        draft.set(server, "--page-size", instance.limits.block)
    if not instance.prefix_caching:
        draft.set(server, "--disable-radix-cache")
    if not instance.cuda_graphs:
        phases = ("--disable-decode-cuda-graph", "--disable-prefill-cuda-graph")
        for option in phases if phases[0] in draft.known.kinds else ("--disable-cuda-graph",):
            draft.set(server, option)
    if told.cuda_graph_sizes:
        draft.set(server, draft.first_known("--cuda-graph-bs-decode", "--cuda-graph-bs"), *told.cuda_graph_sizes)
    if told.max_cudagraph_capture_size:
        draft.set(server, "--cuda-graph-max-bs-prefill", told.max_cudagraph_capture_size)
    _queue(instance.queue.id, server, draft)
    if instance.admission is not None:
        draft.lacks(f"admission {instance.admission.id}: every request is taken")
    if instance.stream_interval > 1:
        draft.set(server, "--stream-interval", instance.stream_interval)
    if told.scheduler_interval and told.scheduler_interval > 1:
        draft.set(server, "--scheduler-recv-interval", told.scheduler_interval)
    if pool.spec.kv.num_blocks:
        draft.set(server, "--max-total-tokens", pool.spec.kv.num_blocks * instance.limits.block)
    _tiers(pool, server, draft)
    if pool.spec.kv.swap_space_bytes:
        draft.lacks("kv.swap_space_bytes: requests that are taken out are computed again")
    if pool.spec.policy and pool.spec.policy != "sglang":
        if instance.limits.mixed and instance.limits.chunked:
            draft.set(server, "--enable-mixed-chunk")
        draft.lacks(f"policy {pool.spec.policy}: SGLang's own scheduler runs")


def _tiers(pool: Pool, server: Server, draft: ServerDraft) -> None:
    """The hierarchical cache: host memory a rank, and a storage behind it."""
    kinds = {tier.kind: tier for tier in pool.spec.kv.tiers}
    if not kinds:
        return
    host = kinds.get("host")
    if host is None:
        draft.lacks("kv.tiers without host: SGLang reaches storage through host memory")
        return
    draft.set(server, "--enable-hierarchical-cache")
    draft.set(server, "--hicache-size", max(round(host.capacity_bytes / 1e9 / pool.devices), 1))
    for kind, backend in (("ssd", "file"), ("remote", "mooncake")):
        if kind in kinds and draft.set(server, "--hicache-storage-backend", backend):
            draft.note(f"kv.tiers {kind}: where it lies and how large it is, is configured in the {backend} backend")
            return


def _queue(queue: str, server: Server, draft: ServerDraft) -> None:
    word = queue.replace("_", "-")
    if word == "priority":
        if draft.set(server, "--enable-priority-scheduling"):
            draft.set(server, "--schedule-low-priority-values-first")
    elif word in draft.known.choices["--schedule-policy"]:
        draft.set(server, "--schedule-policy", word)
    else:
        draft.set(server, "--schedule-policy", "fcfs")
        draft.lacks(f"queue {queue}: requests are served first come, first served")


def _precision(deployed: Deployed, server: Server, draft: ServerDraft) -> None:
    kinds = deployed.serving.precision
    if kinds.weights in ("bf16", "fp16"):
        draft.set(server, "--dtype", {"bf16": "bfloat16", "fp16": "float16"}[kinds.weights])
    if word := cast(deployed, draft, ("fp8",)):
        draft.set(server, "--quantization", word)
    if kinds.kv_cache == "fp8":
        draft.set(server, "--kv-cache-dtype", "fp8_e4m3")
    elif kinds.kv_cache == "int8":
        draft.lacks("precision.kv_cache int8: the cache is kept in 16 bits")


def _speculation(deployed: Deployed, server: Server, draft: ServerDraft) -> None:
    how = deployed.serving.speculation
    if how is None:
        return
    if not draft.set(server, "--speculative-algorithm", ALGORITHMS[how.method]):
        return
    if how.method == "draft":
        draft.set(server, "--speculative-draft-model-path", how.draft if isinstance(how.draft, str) else STAND_IN)
    elif how.method == "eagle":
        draft.set(server, "--speculative-draft-model-path", STAND_IN)
        draft.note("speculation.method eagle: name the weights of its head in --speculative-draft-model-path")
    if how.method != "ngram":
        draft.set(server, "--speculative-num-steps", how.tokens)
        draft.set(server, "--speculative-eagle-topk", 1)
    draft.set(server, "--speculative-num-draft-tokens", how.tokens + 1)
    if how.draft_tp is not None and how.draft_tp != deployed.pools[0].spec.plan.tp:
        draft.lacks(f"speculation.draft_tp {how.draft_tp}: the draft model is cut as the model is")
    draft.note("acceptance of drafted tokens is what the model makes of them: compare it with the simulated one")


def _router(deployed: Deployed, draft: ServerDraft, urls: dict[str, list[str]]) -> list[str]:
    """sglang-router before the servers."""
    known = options("sglang_router")
    name = ROUTER_POLICIES["sglang_router"].get(named(deployed.serving.router)[0])
    words = [
        "exec python3 -m sglang_router.launch_router --host 0.0.0.0",
        '--port "$PORT"',
        f"--policy {name or 'round_robin'}",
    ]
    if deployed.split:
        words.append("--pd-disaggregation")
        for pool in deployed.pools:
            for url in urls[pool.name]:
                port = int(url.rsplit(":", 1)[1]) + BOOTSTRAP_OFFSET
                words.append(f"--{pool.spec.role} http://{url}" + (f" {port}" if pool.spec.role == "prefill" else ""))
    else:
        words.append(workers(urls))
    return command(known, words)


SWITCHES = {"dual-batch-overlap": ("--enable-two-batch-overlap",)}
SERVER_TARGETS.add("sglang", ServerTarget("sglang", "SGLang", check, write, ("sglang_bench", "aiperf"), SWITCHES))
