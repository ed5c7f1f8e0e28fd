"""TensorRT-LLM: `trtllm-serve` with a YAML file next to it; `trtllm-serve disaggregated` before prefill and decode.

Sources: options and keys, `flags/trtllm-<version>.yaml`; what they mean, `tensorrt_llm/commands/serve.py` and
`llmapi/llm_args.py`; documentation, "Disaggregated Serving" (context servers without the overlap scheduler, a transfer
buffer at least as long as the longest prompt) and "trtllm-serve" (several nodes: `trtllm-llmapi-launch` under MPI).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from windtunnel.exporters.servers import checks
from windtunnel.exporters.servers.front import ROUTER_POLICIES, in_front
from windtunnel.exporters.servers.naming import STAND_IN, checkpoint
from windtunnel.exporters.servers.precision import cast
from windtunnel.exporters.servers.target import SERVER_TARGETS, Server, ServerDraft, ServerTarget
from windtunnel.exporters.wrappers import Readable
from windtunnel.techniques.knobs import named

if TYPE_CHECKING:
    from windtunnel.errors import ProblemList
    from windtunnel.exporters.servers.deployed import Deployed, Pool
    from windtunnel.exporters.target import OptionList

PORTS = {"mixed": 8000, "prefill": 8100, "decode": 8200}
GRAPH_BATCH = 128
"""Largest batch that is captured when nothing is stated."""
TYPES = {"draft": "DraftTarget", "mtp": "MTP", "eagle": "Eagle", "ngram": "NGram"}
"""`speculation.method` → `speculative_config.decoding_type`."""


def check(deployed: Deployed, problems: ProblemList) -> None:
    """Everything that TensorRT-LLM refuses about these numbers when it starts."""
    checks.splits(deployed, problems)
    for pool in deployed.pools:
        plan, limits = pool.spec.plan, pool.instance.limits
        if pool.spec.role == "prefill" and limits.budget // plan.dp < 1:
            problems.add(f"{pool.where}.limits.max_num_batched_tokens", limits.budget, "must be at least 1 a rank")


def write(deployed: Deployed, known: OptionList) -> ServerDraft:
    """The servers of a deployment."""
    draft = ServerDraft(known)
    for pool in deployed.pools:
        server = Server(
            pool=pool,
            nodes=deployed.nodes(pool),
            per_node=deployed.per_node(pool),
            program=["trtllm-serve", '"$MODEL"'],
        )
        server.port = PORTS[pool.spec.role]
        settings: dict[str, Any] = {}
        draft.set(server, "--host", "0.0.0.0")
        draft.set(server, "--port", '"$PORT"')
        draft.set(server, "--backend", "pytorch")
        _axes(pool, server, settings, draft)
        _limits(deployed, pool, server, settings, draft)
        _precision(deployed, settings, draft)
        if deployed.serving.expert_load is not None and deployed.serving.expert_load.eplb:
            draft.lacks("expert_load.eplb: its load balancer has a file of its own")
        _speculation(deployed, settings, draft)
        _transfer(deployed, pool, settings, draft)
        name = f"trtllm-{pool.name}.yaml"
        draft.set(server, draft.first_known("--config", "--extra_llm_api_options"), f'"$HERE/{name}"')
        server.files[name] = settings_text(settings)
        draft.servers.append(server)
    checkpoint(deployed, draft)
    in_front(deployed, draft, _front)
    router = named(deployed.serving.router)[0]
    if deployed.split and router != "round_robin":
        draft.lacks(f"router {router}: trtllm-serve disaggregated sends requests round robin")
    return draft


def put(draft: ServerDraft, settings: dict[str, Any], key: str, value: Any) -> None:
    """Set a key of the YAML file, or say that this version lacks it."""
    refusal = draft.known.refuses(key, value)
    if refusal:
        draft.lacks(refusal)
        return
    *parents, last = key.split(".")
    for parent in parents:
        settings = settings.setdefault(parent, {})
    settings[last] = value


def settings_text(settings: dict[str, Any]) -> str:
    """The YAML file; comments would be lost when it is read, so the script has them."""
    return yaml.dump(settings, Dumper=Readable, sort_keys=False) if settings else "{}\n"


def _axes(pool: Pool, server: Server, settings: dict[str, Any], draft: ServerDraft) -> None:
    plan = pool.spec.plan
    ranks = plan.tp * plan.dp
    draft.set(server, "--tp_size", ranks)
    if plan.pp > 1:
        draft.set(server, "--pp_size", plan.pp)
    if plan.cp > 1:
        draft.set(server, "--cp_size", plan.cp)
    checks.unsaid(pool, draft)
    if plan.dcp > 1:
        draft.lacks(f"{pool.name}: dcp {plan.dcp}: each rank of decode keeps the whole cache of its heads")
    if plan.ep > 1:
        draft.set(server, "--ep_size", plan.ep)
    if plan.dp > 1:
        put(draft, settings, "enable_attention_dp", True)
    if server.nodes > 1:
        total = server.nodes * server.per_node
        draft.set(server, "--gpus_per_node", server.per_node)
        server.before = [
            'if [ "$NODE_RANK" -gt 0 ]; then',
            "  exec sleep infinity  # the first node starts the ranks of all",
            "fi",
            f': "${{MPI_HOSTS:?{server.nodes} nodes as mpirun takes them: first:{server.per_node},…}}"',
        ]
        mpirun = f'mpirun --allow-run-as-root -n {total} -H "$MPI_HOSTS"'
        server.hosts = "MPI_HOSTS"
        server.program = [mpirun, "trtllm-llmapi-launch", *server.program]
        draft.note(f"{pool.name}: mpirun on the first of {server.nodes} nodes starts all; MPI_HOSTS names them")


def _limits(deployed: Deployed, pool: Pool, server: Server, settings: dict[str, Any], draft: ServerDraft) -> None:
    told, instance, plan = pool.spec.limits, pool.instance, pool.spec.plan
    own = deployed.serving.engine == "trtllm"
    seqs = max(instance.limits.max_seqs // plan.dp, 1)
    draft.set(server, "--max_batch_size", seqs)
    draft.set(server, "--max_num_tokens", instance.limits.budget // plan.dp)
    if told.max_model_len:
        draft.set(server, "--max_seq_len", told.max_model_len)
    if told.free_gpu_memory_fraction or own:
        share = told.free_gpu_memory_fraction or instance.defaults.memory_fraction
        draft.set(server, "--kv_cache_free_gpu_memory_fraction", f"{share:g}")
    else:
        draft.note(f"the simulated memory knob is {deployed.serving.engine}'s: TensorRT-LLM's own share applies")
    if instance.limits.chunked:
        put(draft, settings, "enable_chunked_prefill", True)
    put(draft, settings, "kv_cache_config.enable_block_reuse", instance.prefix_caching)
    if pool.spec.kv.block_size or own:
        put(draft, settings, "kv_cache_config.tokens_per_block", instance.limits.block)
    if pool.spec.kv.num_blocks:
        tokens = pool.spec.kv.num_blocks * instance.limits.block // plan.dp
        put(draft, settings, "kv_cache_config.max_tokens", tokens)
    if instance.cuda_graphs:
        put(draft, settings, "cuda_graph_config.enable_padding", True)
        if told.cuda_graph_sizes:
            put(draft, settings, "cuda_graph_config.batch_sizes", list(told.cuda_graph_sizes))
        else:
            put(draft, settings, "cuda_graph_config.max_batch_size", min(seqs, GRAPH_BATCH))
        if told.max_cudagraph_capture_size:
            draft.lacks("limits.max_cudagraph_capture_size: decode steps alone are captured")
    else:
        put(draft, settings, "cuda_graph_config", None)
    if instance.stream_interval > 1:
        put(draft, settings, "stream_interval", instance.stream_interval)
    if told.scheduler_interval and told.scheduler_interval > 1:
        draft.lacks(f"limits.scheduler_interval {told.scheduler_interval}: arrivals are seen at every step")
    for tier in pool.spec.kv.tiers:
        if tier.kind == "host":
            put(draft, settings, "kv_cache_config.host_cache_size", int(tier.capacity_bytes / pool.devices))
        else:
            draft.lacks(f"kv.tiers {tier.kind}: blocks go to host memory alone")
    if pool.spec.kv.swap_space_bytes:
        draft.lacks("kv.swap_space_bytes: it takes no request out; its host cache holds blocks for reuse alone")
    if instance.queue.id != "fcfs":
        draft.lacks(f"queue {instance.queue.id}: requests are served first come, first served")
    if instance.admission is not None:
        draft.lacks(f"admission {instance.admission.id}: every request is taken")
    policy = {
        "trtllm_inflight": "GUARANTEED_NO_EVICT",
        "trtllm_max_utilization": "MAX_UTILIZATION",
        "static": "STATIC_BATCH",
    }.get(pool.spec.policy or "trtllm_inflight")
    if policy is None:
        draft.lacks(f"policy {pool.spec.policy}: TensorRT-LLM's own scheduler runs")
    else:
        put(draft, settings, "scheduler_config.capacity_scheduler_policy", policy)


def _precision(deployed: Deployed, settings: dict[str, Any], draft: ServerDraft) -> None:
    kinds = deployed.serving.precision
    cast(deployed, draft, ())
    if kinds.weights in ("bf16", "fp16"):
        put(draft, settings, "dtype", {"bf16": "bfloat16", "fp16": "float16"}[kinds.weights])
    if kinds.kv_cache == "fp8":
        put(draft, settings, "kv_cache_config.dtype", "fp8")
    elif kinds.kv_cache == "int8":
        draft.lacks("precision.kv_cache int8: the cache is kept in 16 bits")


def _speculation(deployed: Deployed, settings: dict[str, Any], draft: ServerDraft) -> None:
    how = deployed.serving.speculation
    if how is None:
        return
    put(draft, settings, "speculative_config.decoding_type", TYPES[how.method])
    if how.method == "mtp":
        put(draft, settings, "speculative_config.num_nextn_predict_layers", how.tokens)
    else:
        put(draft, settings, "speculative_config.max_draft_len", how.tokens)
    if how.method in ("draft", "eagle"):
        model = how.draft if isinstance(how.draft, str) else STAND_IN
        put(draft, settings, "speculative_config.speculative_model_dir", model)
        draft.note("speculation: speculative_config.speculative_model_dir must name a folder with those weights")
    elif how.method == "ngram":
        put(draft, settings, "speculative_config.max_matching_ngram_size", how.tokens)
    draft.note("acceptance of drafted tokens is what the model makes of them: compare it with the simulated one")


def _transfer(deployed: Deployed, pool: Pool, settings: dict[str, Any], draft: ServerDraft) -> None:
    """Prefill servers send their cache to decode servers."""
    if pool.spec.role == "mixed":
        return
    if pool.spec.role == "prefill":
        put(draft, settings, "disable_overlap_scheduler", True)
    put(draft, settings, "cache_transceiver_config.backend", "NIXL")
    longest = max(p.instance.limits.budget // p.spec.plan.dp for p in deployed.pools)
    put(draft, settings, "cache_transceiver_config.max_tokens_in_buffer", longest)
    draft.note(f"cache_transceiver_config.max_tokens_in_buffer is {longest:,}: raise it to the longest prompt")


def _front(deployed: Deployed, draft: ServerDraft, urls: dict[str, list[str]]) -> list[str]:
    """`trtllm-serve disaggregated` with its file, or nginx before servers that are alike."""
    if not deployed.split:
        return _nginx(named(deployed.serving.router)[0], [url for found in urls.values() for url in found])
    sides = {"prefill": "context_servers", "decode": "generation_servers"}
    lines = ["hostname: 0.0.0.0", "port: $PORT", "backend: pytorch"]
    for role, key in sides.items():
        own = [url for pool in deployed.pools if pool.spec.role == role for url in urls[pool.name]]
        lines += [f"{key}:", f"  num_instances: {len(own)}", "  urls:", *(f'    - "{url}"' for url in own)]
    refused = [draft.known.refuses(f"disaggregated:{line.split(':')[0]}", "") for line in lines if line[0] != " "]
    assert not any(refused), refused
    return [
        'FILE="$(mktemp --suffix=.yaml)"',
        'cat > "$FILE" <<YAML',
        *lines,
        "YAML",
        'exec trtllm-serve disaggregated --config_file "$FILE"',
    ]


def _nginx(router: str, urls: list[str]) -> list[str]:
    rule = ROUTER_POLICIES["nginx"].get(router) or ""
    servers = [f"    server {url};" for url in urls]
    return [
        'FILE="$(mktemp --suffix=.conf)"',
        'cat > "$FILE" <<CONF',
        "events { worker_connections 16384; }",
        "http {",
        "  upstream servers {",
        *([f"    {rule}"] if rule else []),
        *servers,
        "  }",
        "  server {",
        "    listen $PORT;",
        "    location / { proxy_pass http://servers; proxy_buffering off; proxy_read_timeout 3600s; }",
        "  }",
        "}",
        "CONF",
        "exec nginx -c \"$FILE\" -g 'daemon off;'",
    ]


SERVER_TARGETS.add("trtllm", ServerTarget("trtllm", "TensorRT-LLM", check, write, ("aiperf",)))
