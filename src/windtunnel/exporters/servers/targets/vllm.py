"""vLLM: `vllm serve`, vllm-router in front of several servers, KV connectors between prefill and decode.

Sources: options, `flags/vllm-<version>.yaml`; what they mean and which numbers are refused, `vllm/config/` and
`vllm/engine/arg_utils.py` of the same releases; several nodes, vLLM documentation, "Parallelism and Scaling" and "Data
Parallel Deployment"; connectors, "Disaggregated Prefilling" and "NixlConnector Usage Guide"; README of vllm-router.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from windtunnel.exporters.servers import checks
from windtunnel.exporters.servers.front import ROUTER_POLICIES, command, in_front, workers
from windtunnel.exporters.servers.naming import STAND_IN, checkpoint
from windtunnel.exporters.servers.precision import cast
from windtunnel.exporters.servers.target import SERVER_TARGETS, Server, ServerDraft, ServerTarget, quoted
from windtunnel.exporters.target import options
from windtunnel.techniques.knobs import named

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.exporters.servers.deployed import Deployed, Pool
    from windtunnel.exporters.target import OptionList

PORTS = {"mixed": 8000, "prefill": 8100, "decode": 8200}
RPC_PORT, MASTER_PORT, RAY_PORT, SIDE_PORT = 13345, 29501, 6379, 5600
OWN = ("vllm_v0", "vllm_v0_chunked", "vllm_v1")


def check(deployed: Deployed, problems: ProblemList) -> None:
    """Everything that vLLM refuses about these numbers when it starts."""
    checks.splits(deployed, problems)


def write(deployed: Deployed, known: OptionList) -> ServerDraft:
    """The servers of a deployment."""
    draft = ServerDraft(known)
    for pool in deployed.pools:
        server = Server(
            pool=pool,
            nodes=deployed.nodes(pool),
            per_node=deployed.per_node(pool),
            program=["vllm", "serve", '"$MODEL"'],
        )
        server.port = PORTS[pool.spec.role]
        draft.set(server, "--host", "0.0.0.0")
        draft.set(server, "--port", '"$PORT"')
        _axes(deployed, pool, server, draft)
        _limits(deployed, pool, server, draft)
        _precision(deployed, server, draft)
        _copies(deployed, server, draft)
        _transfer(pool, server, draft)
        _speculation(deployed, server, draft)
        draft.servers.append(server)
    checkpoint(deployed, draft)
    in_front(deployed, draft, _router)
    return draft


def _axes(deployed: Deployed, pool: Pool, server: Server, draft: ServerDraft) -> None:
    plan, nodes = pool.spec.plan, server.nodes
    draft.set(server, "--tensor-parallel-size", plan.tp)
    if plan.pp > 1:
        draft.set(server, "--pipeline-parallel-size", plan.pp)
    if plan.cp > 1:
        draft.set(server, "--prefill-context-parallel-size", plan.cp)
    checks.unsaid(pool, draft)
    if plan.dcp > 1:
        draft.set(server, "--decode-context-parallel-size", plan.dcp)
    if plan.dp > 1:
        draft.set(server, "--data-parallel-size", plan.dp)
        if not deployed.model.num_experts:
            draft.note(f"{pool.name}: data parallelism of a dense model is {plan.dp} copies behind one address")
    ranks = plan.tp * plan.dp * plan.cp
    if plan.ep > 1:
        draft.set(server, "--enable-expert-parallel")
        if plan.ep != ranks:
            draft.lacks(f"{pool.name}: ep {plan.ep}: experts are spread over all {ranks} ranks (tp · dp)")
        if plan.dp > 1:
            _exchange(pool, server, draft)
    if nodes == 1:
        return
    if plan.dp > 1:
        local = plan.dp // nodes
        draft.set(server, "--data-parallel-size-local", local)
        draft.set(server, "--data-parallel-address", '"$LEADER"')
        draft.set(server, "--data-parallel-rpc-port", RPC_PORT)
        server.follower = [("--headless",), ("--data-parallel-start-rank", f'"$((NODE_RANK * {local}))"')]
    elif "--nnodes" in draft.known.kinds:
        draft.set(server, "--nnodes", nodes)
        draft.set(server, "--node-rank", '"$NODE_RANK"')
        draft.set(server, "--master-addr", '"$LEADER"')
        draft.set(server, "--master-port", MASTER_PORT)
        server.follower = [("--headless",)]
    else:
        draft.set(server, "--distributed-executor-backend", "ray")
        server.before = [
            'if [ "$NODE_RANK" -gt 0 ]; then',
            f'  exec ray start --block --address="$LEADER:{RAY_PORT}"',
            "fi",
            f"ray start --head --port={RAY_PORT}",
        ]


def _exchange(pool: Pool, server: Server, draft: ServerDraft) -> None:
    """How ranks with attention of their own send tokens to experts, as it was priced; vLLM's own is a gather of all.

    Names and what they are for: docs.vllm.ai, expert_parallel_deployment. Before the option there was a variable.
    """
    kind = "high_throughput" if pool.spec.role == "prefill" else "low_latency"
    amd = pool.cluster.device.vendor.lower() == "amd"
    words = (f"mori_{kind}", "mori") if amd else (f"deepep_{kind}",)
    if pool.instance.shape.gathered:
        words = ("allgather_reducescatter",)
    if "--all2all-backend" not in draft.known.kinds:
        server.environment["VLLM_ALL2ALL_BACKEND"] = words[-1]
        return
    listed = draft.known.choices["--all2all-backend"]
    word = next((word for word in words if word in listed), words[-1])
    if draft.set(server, "--all2all-backend", word) and not pool.instance.shape.gathered:
        draft.note(f"{pool.name}: --all2all-backend {word} needs its kernels installed next to vLLM")


def _limits(deployed: Deployed, pool: Pool, server: Server, draft: ServerDraft) -> None:
    told, instance, plan = pool.spec.limits, pool.instance, pool.spec.plan
    own = deployed.serving.engine == "vllm"
    draft.set(server, "--max-num-seqs", max(instance.limits.max_seqs // plan.dp, 1))
    draft.set(server, "--max-num-batched-tokens", instance.limits.budget // plan.dp)
    longest, holds = instance.max_model_len, instance.capacity.tokens // plan.dp
    if told.max_model_len:
        draft.set(server, "--max-model-len", told.max_model_len)
    elif longest and holds < longest:
        draft.set(server, "--max-model-len", holds)
        draft.note(
            f"{pool.name}: the cache holds {holds:,} tokens, fewer than the model's {longest:,}: --max-model-len keeps "
            "the server from refusing to start"
        )
    if told.gpu_memory_utilization or own:
        share = told.gpu_memory_utilization or instance.defaults.memory_fraction
        draft.set(server, "--gpu-memory-utilization", f"{share:g}")
    else:
        draft.note(f"the simulated memory knob is {deployed.serving.engine}'s: vLLM's own share of memory applies")
    if pool.spec.kv.block_size or own:
        draft.set(server, "--block-size", instance.limits.block)
    _switch(draft, server, "prefix-caching", on=instance.prefix_caching)
    _switch(draft, server, "chunked-prefill", on=instance.limits.chunked)
    if not instance.cuda_graphs:
        draft.set(server, "--enforce-eager")
    _graphs(pool, server, draft)
    if instance.queue.id == "priority":
        draft.set(server, "--scheduling-policy", "priority")
    elif instance.queue.id != "fcfs":
        draft.lacks(f"queue {instance.queue.id}: requests are served first come, first served")
    if instance.admission is not None:
        draft.lacks(f"admission {instance.admission.id}: every request is taken")
    if instance.stream_interval > 1:
        draft.set(server, "--stream-interval", instance.stream_interval)
    if pool.spec.kv.num_blocks:
        draft.set(server, "--num-gpu-blocks-override", pool.spec.kv.num_blocks // plan.dp)
    if swap := pool.spec.kv.swap_space_bytes:
        if "--swap-space" in draft.known.kinds:
            draft.set(server, "--swap-space", f"{swap / (1 << 30):g}")
        else:
            draft.lacks("kv.swap_space_bytes: preempted sequences are computed again")
    _tiers(pool, server, draft)
    if told.scheduler_interval and told.scheduler_interval > 1:
        draft.lacks(f"limits.scheduler_interval {told.scheduler_interval}: arrivals are seen at every step")
    if pool.spec.policy and pool.spec.policy not in OWN:
        draft.lacks(f"policy {pool.spec.policy}: vLLM's own scheduler runs")


def _graphs(pool: Pool, server: Server, draft: ServerDraft) -> None:
    """Batches that are captured."""
    told = pool.spec.limits
    if told.cuda_graph_sizes:
        option = draft.first_known("--cudagraph-capture-sizes", "--cuda-graph-sizes")
        draft.set(server, option, *told.cuda_graph_sizes)
    if told.max_cudagraph_capture_size:
        draft.set(server, "--max-cudagraph-capture-size", told.max_cudagraph_capture_size)


def _copies(deployed: Deployed, server: Server, draft: ServerDraft) -> None:
    """Experts that are placed by load."""
    load = deployed.serving.expert_load
    if load is not None and load.eplb and draft.set(server, "--enable-eplb"):
        if load.placement == "near":
            draft.lacks("expert_load.placement near: copies are placed by load alone")
        given = {"num_redundant_experts": load.num_redundant_experts, "step_interval": load.step_interval}
        json_option(draft, server, "--eplb-config", given)


def _tiers(pool: Pool, server: Server, draft: ServerDraft) -> None:
    """Host memory for blocks that are let go; drives and stores are LMCache's, which has a configuration of its own."""
    for tier in pool.spec.kv.tiers:
        if tier.kind == "host" and draft.set(server, "--kv-offloading-size", f"{tier.capacity_bytes / (1 << 30):g}"):
            draft.set(server, "--kv-offloading-backend", "native")
        elif tier.kind != "host":
            draft.lacks(f"kv.tiers {tier.kind}: configured in LMCache (LMCacheConnectorV1), not by options")


def _switch(draft: ServerDraft, server: Server, name: str, *, on: bool) -> None:
    """A switch that is on by default: its negative changed its spelling between releases."""
    if on:
        draft.set(server, f"--enable-{name}")
    else:
        draft.set(server, draft.first_known(f"--disable-{name}", f"--no-enable-{name}"))


def _precision(deployed: Deployed, server: Server, draft: ServerDraft) -> None:
    kinds = deployed.serving.precision
    if kinds.weights in ("bf16", "fp16"):
        draft.set(server, "--dtype", {"bf16": "bfloat16", "fp16": "float16"}[kinds.weights])
    if cast(deployed, draft, ("fp8",)):
        draft.set(server, "--quantization", "fp8")
    if kinds.kv_cache == "fp8":
        draft.set(server, "--kv-cache-dtype", "fp8")
    elif kinds.kv_cache == "int8":
        draft.lacks("precision.kv_cache int8: the cache is kept in 16 bits")


def _transfer(pool: Pool, server: Server, draft: ServerDraft) -> None:
    """Prefill servers send their cache to decode servers."""
    if pool.spec.role == "mixed":
        return
    role = "kv_producer" if pool.spec.role == "prefill" else "kv_consumer"
    given = {"kv_connector": "NixlConnector", "kv_role": role}
    json_option(draft, server, "--kv-transfer-config", given)
    first = SIDE_PORT + (0 if pool.spec.role == "prefill" else 1000)
    server.environment["VLLM_NIXL_SIDE_CHANNEL_HOST"] = "\"${SIDE_HOST:-$(hostname -i | cut -d' ' -f1)}\""
    server.environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] = f'"$(({first} + INSTANCE * {max(pool.devices, 1)}))"'


METHODS = {"draft": ("draft_model",), "mtp": ("mtp", "deepseek_mtp"), "eagle": ("eagle3",), "ngram": ("ngram",)}
"""`speculation.method` → the release's word, the newer first."""


def _speculation(deployed: Deployed, server: Server, draft: ServerDraft) -> None:
    how = deployed.serving.speculation
    if how is None:
        return
    words = draft.known.choices["--speculative-config.method"]
    given: dict[str, Any] = {"method": next(word for word in METHODS[how.method] if word in words)}
    given["num_speculative_tokens"] = how.tokens
    if how.method == "draft":
        given["model"] = how.draft if isinstance(how.draft, str) else STAND_IN
        if how.draft_tp is not None and how.draft_tp != deployed.pools[0].spec.plan.tp:
            given["draft_tensor_parallel_size"] = how.draft_tp
    elif how.method == "eagle":
        given["model"] = STAND_IN
        draft.note("speculation.method eagle: name the weights of its head in --speculative-config")
    elif how.method == "ngram":
        given["prompt_lookup_max"] = how.tokens
    json_option(draft, server, "--speculative-config", given)
    draft.note("acceptance of drafted tokens is what the model makes of them: compare it with the simulated one")


def json_option(draft: ServerDraft, server: Server, option: str, given: dict[str, Any]) -> None:
    """An option that takes JSON, of which each key is in the version's list."""
    for key, value in given.items():
        refusal = draft.known.refuses(f"{option}.{key}", value)
        if refusal:
            draft.lacks(refusal)
            return
    if refusal := draft.known.refuses(option, given):
        draft.lacks(refusal)
        return
    server.options.append((option, quoted(json.dumps(given))))


def _router(deployed: Deployed, draft: ServerDraft, urls: dict[str, list[str]]) -> list[str]:
    """vllm-router before the servers."""
    known = options("vllm_router")
    name = ROUTER_POLICIES["vllm_router"].get(named(deployed.serving.router)[0])
    words = ["exec vllm-router --host 0.0.0.0", '--port "$PORT"', f"--policy {name or 'round_robin'}"]
    if deployed.split:
        words.append("--vllm-pd-disaggregation")
        for pool in deployed.pools:
            words += [f"--{pool.spec.role} http://{url}" for url in urls[pool.name]]
    else:
        words.append(workers(urls))
    return command(known, words)


SWITCHES = {"dual-batch-overlap": ("--enable-dbo",)}
SERVER_TARGETS.add("vllm", ServerTarget("vllm", "vLLM", check, write, ("vllm_bench", "aiperf"), SWITCHES))
