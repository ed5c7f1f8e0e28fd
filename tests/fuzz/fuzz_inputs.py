"""Sound inputs that cases start from: scenarios, configs, launch files, traces, tables; small, so that runs are"""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
MOST_REQUESTS = 60
"""Requests of a scenario before it is damaged."""


def _small(data: dict[str, Any]) -> dict[str, Any]:
    traffic = data.get("serving", {}).get("traffic", {})
    if "num_requests" in traffic:
        traffic["num_requests"] = min(traffic["num_requests"], MOST_REQUESTS)
    return data


@cache
def _examples(folder: str) -> list[dict[str, Any]]:
    files = sorted((EXAMPLES / folder).glob("*.yaml"))
    return [_small(yaml.safe_load(file.read_text("utf-8"))) for file in files if "405b" not in file.name]


SMALL_MODEL = {
    "name": "small",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 32000,
}
TRAINING: list[dict[str, Any]] = [
    {
        "model": SMALL_MODEL,
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8, "power_cap_w": 500},
        "training": {
            "seq_len": 4096,
            "global_batch": 16,
            "precision": "fp8",
            "framework": "megatron_core",
            "optimizer": "adam",
            "attention": "flash3",
            "lora": {"rank": 8},
            "cuda_graphs": "full",
        },
        "plan": {
            "tp": 2,
            "pp": 2,
            "vpp": 2,
            "cp": 1,
            "ep": 1,
            "dp": 2,
            "zero": 1,
            "mbs": 1,
            "schedule": "interleaved_1f1b",
            "recompute": {"policy": "modules", "modules": ["core_attn", "mlp"]},
            "overlap": {"tp": True, "grad_reduce": True},
            "offload": {"optimizer": 0.5},
        },
        "techniques": [],
    },
]
SERVING: list[dict[str, Any]] = [
    {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
        "serving": {
            "engine": "vllm",
            "engine_version": "0.10.0",
            "precision": {"weights": "fp8", "kv_cache": "fp8"},
            "pools": [
                {"role": "prefill", "replicas": 2, "plan": {"tp": 2}, "limits": {"max_num_seqs": 32}},
                {"role": "decode", "replicas": 1, "plan": {"tp": 4, "dp": 1}, "policy": "vllm_v1"},
            ],
            "router": "round_robin",
            "traffic": {
                "rate_per_s": 4,
                "process": "gamma",
                "burstiness": 2,
                "num_requests": 40,
                "input_tokens": {"distribution": "lognormal", "mean": 600, "cv": 1, "max": 4000},
                "output_tokens": {"distribution": "uniform", "min": 5, "max": 60},
                "shared_prefix_tokens": 200,
                "seed": 3,
            },
            "slo": {"ttft_s": 1, "tpot_s": "50 ms", "percentile": 0.9},
        },
    },
]
SEARCH: list[dict[str, Any]] = [
    {
        "model": SMALL_MODEL,
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
        "training": {"seq_len": 2048, "global_batch": 16},
        "search": {
            "objective": "step_time",
            "space": {"tp": [1, 2], "pp": [1, 2], "mbs": [1, 2], "recompute": ["none", "full"], "zero": [0, 1]},
        },
    },
    {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
        "serving": {
            "engine": "vllm",
            "traffic": {"rate_per_s": 4, "num_requests": 30, "input_tokens": 500, "output_tokens": 50},
            "slo": {"ttft_s": 1, "tpot_s": "50 ms"},
        },
        "search": {
            "target": "serving",
            "objective": "cost_per_hour",
            "space": {"tp": [1, 2], "weights": ["bf16", "fp8"]},
        },
    },
]

RUNS: list[dict[str, Any]] = [
    {
        "model": SMALL_MODEL,
        "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 64, "framework": "megatron_core"},
        "plan": {"tp": 2, "zero": 1, "mbs": 1},
        "run": {
            "tokens": "2T",
            "failures": {
                "name": "own",
                "node_variation": 0.5,
                "weibull_shape": 0.9,
                "causes": [
                    {"name": "gpu", "per_1000_device_days": 2, "detect_s": "2 min", "diagnose_s": 60},
                    {"name": "switch", "per_1000_rack_days": 1, "radius": "rack"},
                    {"name": "straggler", "per_1000_node_days": 5, "slow": 1.2, "detect_s": 3600},
                    {"name": "corruption", "per_job_day": 0.05, "radius": "process", "silent": True},
                ],
            },
            "checkpoint": {
                "interval": "20 min",
                "tiers": [{"to": "host", "mode": "async"}, {"to": "storage", "mode": "async", "every": 4}],
            },
            "recovery": {"policy": "restart", "spares": 1, "repair_crews": 2, "retire_after": 3},
            "maintenance": {"every_s": 604800, "lasts_s": 7200},
            "grid": {"g_co2_per_kwh": 300},
            "replications": 3,
        },
    },
    {
        "model": SMALL_MODEL,
        "cluster": {"device": "a100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 64},
        "plan": {"zero": 2, "mbs": 2},
        "run": {
            "steps": 50000,
            "failures": "llama3-2024",
            "checkpoint": {"interval_steps": 500, "tiers": [{"to": "peer", "group": 2}, {"to": "storage"}]},
            "recovery": {"policy": "shrink", "least_replicas": 0.5, "timeouts": {"collective_s": 60}},
            "stragglers": {"law": "lognormal", "spread": 0.1, "wait": "all"},
            "replications": 2,
        },
    },
]
CLUSTERS: list[dict[str, Any]] = [
    {
        "cluster": {"device": "a100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
        "jobs": {
            "trace": "jobs.csv",
            "policy": policy,
            "placement": placement,
            "start_overhead_s": 60,
            "outages": {"per_node_day": 0.5, "repair_s": 3600},
            "grid": {"g_co2_per_kwh": 350},
            "price_per_device_hour": 2,
            "seed": 3,
            **more,
        },
    }
    for policy, placement, more in (
        ("backfill", "consolidated", {}),
        ("tiresias-l", "spread", {"guaranteed_run": 600}),
        ("srtf", "best_fit", {"power": {"limit": 6000, "nodes_per_row": 1, "beside_devices": 500, "delay": 20}}),
        (
            "priority",
            {"delay": {"wait_s": 300}},
            {"power": {"oversubscribed": 0.4, "caps": True}, "preempted_jobs": "lose"},
        ),
        ("drf", "spread", {}),
        ("max_min_fairness", "consolidated", {}),
    )
]
LEARNING: list[dict[str, Any]] = [
    {
        "learning": {
            "task": {"quadratic": {"params": 8}},
            "workers": 4,
            "steps": 30,
            "seeds": 2,
            "algorithms": [
                "data_parallel",
                {"diloco": {"period": 5, "drop": 0.1}},
                {"local_sgd": {"period": 5, "compressor": {"topk": {"fraction": 0.5}}, "feedback": 1.0}},
            ],
            "inner": {"adamw": {"beta2": 0.95}},
            "lr": {"peak": 0.01, "warmup_steps": 3, "decay": "cosine", "final": 0.1},
            "target": {"loss": 3.0},
            "link": {"bandwidth": "1 Gb/s", "latency": "40 ms", "connections": 2, "window_bytes": 65536, "loss": 0.001},
            "step_s": "500 ms",
            "parameters": "1B",
            "layers": 4,
            "step_watts": 700,
            "idle_watts": 100,
            "failures": {"causes": [{"name": "gpu", "per_1000_node_days": 2000000, "detect_s": 5}], "repair_s": 60},
            "joins": [0, 0, "10 s"],
        }
    },
    {
        "learning": {
            "task": {"logistic": {"inputs": 6, "classes": 3, "samples": 600, "held_out": 100}},
            "workers": 6,
            "steps": 20,
            "batch": 4,
            "inner": "sgd",
            "lr": 0.1,
            "split": {"dirichlet": 0.5},
            "algorithms": [
                {"fedbuff": {"local_steps": 5, "buffer": 2, "concurrency": 4}},
                {"fedavg": {"local_steps": 5}},
                {"elastic-local-sgd": {"period": 5}},
            ],
            "speeds": {"factors": [1, 2], "lognormal": 0.3, "jitter": 0.1, "with_data": True},
            "link": {"preset": "wifi", "uplink": "20 Mb/s", "shared": "50 Mb/s"},
            "step_s": 1,
            "parameters": 1e6,
            "evaluate_every": 5,
        }
    },
    {
        "model": SMALL_MODEL,
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 2048, "global_batch": 16},
        "plan": {"mbs": 2},
        "techniques": [{"streaming-diloco": {"period": 6}}],
        "learning": {
            "task": {"markov-lm": {}},
            "workers": 4,
            "steps": 12,
            "batch": 2,
            "algorithms": ["data_parallel", {"powersgd": {"rank": 1}}, {"robust": {"aggregator": "median"}}],
            "attack": {"kind": "sign_flip", "workers": 1, "strength": 3},
            "law": "diloco-scaling",
            "link": {"preset": "wan", "site": {"workers": 2, "bandwidth": "100 Gb/s", "latency": 1e-5}},
        },
    },
]
JOBS = """\
job_id,user,submit_s,num_gpus,duration_s,estimate_s,deadline_s
j0,a,0,1,3395,3395,12415
j1,b,60,8,1146,3438,2266
j2,a,61,16,600,600,9000
j3,c,2000,2,86400,86400,190000
j4,b,2000,4,5,5,9000
"""
PROGRESS = """\
time,step,event
2026-01-01T00:00:00,0,
2026-01-01T01:00:00,3600,
2026-01-01T02:00:00,7000,gpu
2026-01-01T03:00:00,6800,
2026-01-01T04:00:00,10400,
"""
ATTEMPTS = "problem,correct,answer,tokens,temperature\n" + "".join(
    f"q{problem},{int((problem * attempt) % 7 < 2)},{attempt % 3},{100 + problem},0.7\n"
    for problem in range(9)
    for attempt in range(16)
)
_TASK: dict[str, Any] = {
    "model": SMALL_MODEL,
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
    "population": {"pass_1": 0.4, "problems": 60, "wrong_answers": [0.3, 0.1]},
}
_TOOLS = {
    name: {"seconds": 0.5, "concurrency": 4, "result_tokens": 30}
    for name in ("sandbox", "orchestrator", "queue", "retrieval", "tests")
}
_ATTEMPT = {"id": "write", "attempt": True, "output_tokens": {"distribution": "lognormal", "mean": 60, "cv": 0.4}}
REASONING: list[dict[str, Any]] = [
    {
        **_TASK,
        "programs": {
            "strategies": [
                {"best_of_n": {"n": [1, 4], "selector": ["majority", "verifier"]}},
                {"first_accept": {"n": 4, "order": "parallel"}},
                {"beam": {"n": 4, "keep": 2, "steps": 2}},
            ],
            "verifier": {"separation": 0.6, "true_accept": 0.8, "false_accept": 0.2, "output_tokens": 3},
            "problems": 8,
            "offline": True,
            "output_tokens": {"distribution": "lognormal", "mean": 50, "cv": 0.5},
            "input_tokens": 40,
            "api_price": {"input": 1.0, "cached_input": 0.5, "output": 2.0},
        },
        "search": {"objective": "accuracy", "limits": {"cost_per_task": 0.05, "latency_p99_s": 30}},
    },
    {
        **_TASK,
        "population": {"samples": "attempts.csv", "max_tokens": 400},
        "programs": {
            "strategies": [
                {"mcts": {"n": 2, "branching": 2, "steps": 2, "exploration": 1.0}},
                {"revision": {"rounds": 2, "worth": 1.5}},
                {"budget_forcing": {"max_tokens": 40, "waits": 1}},
                {"solve_verify": {"n": 2, "verifications": 2}},
                {"sleep_time": {"queries": 2, "sleep_tokens": 40}},
                {"threads": {"width": 2, "reuse": True}},
            ],
            "problems": 6,
            "concurrency": [2, 4],
            "output_tokens": 60,
            "tools": _TOOLS,
            "deadline_s": 20.0,
            "deadline_share": 0.9,
            "pause": "hold",
            "hold_s": 2.0,
            "system_tokens": 30,
            "seed": 3,
        },
    },
    {
        **{k: v for k, v in _TASK.items() if k != "population"},
        "programs": {
            "strategies": [
                {"coding_agent": {"steps": 3.0, "first_tokens": 100, "step_tokens": 20.0, "output_tokens": 10.0}},
                {"apr": {"children": 2.0, "child_tokens": 20.0, "parent_tokens": 20.0}},
                {"rag": {"documents": 2, "document_tokens": 20, "iterations": 2}},
                {"orchestrator": {"stages": 1, "agents": 2}},
                {"text_to_sql": {"cv": 0.3}},
            ],
            "problems": 4,
            "rate_per_s": 2.0,
            "busy": 0.7,
            "output_tokens": 20,
            "tools": _TOOLS,
            "plans": [{"tp": 1}],
            "pause": "drop",
        },
        "serving": {"router": "gang", "pools": [{"queue": "program_slack", "limits": {"max_num_seqs": 16}}]},
    },
    {
        **_TASK,
        "population": {"models": {"small.json": {"pass_at_k": {1: 0.3, 8: 0.6}, "temperature": {1: 0.8, 8: 0.8}}}},
        "programs": {
            "models": [{"model": "small.json", "plan": {"tp": 1}, "replicas": 2}],
            "roles": {"planner": {"model": "small.json", "replicas": 1}},
            "verifier": {"model": "small.json", "input_tokens": 5},
            "problems": 6,
            "offline": True,
            "tools": {"tests": {"seconds": 0.2, "true_accept": 0.9, "false_accept": 0.1, "result_tokens": 9}},
            "strategy": {
                "graph": {
                    "answer": "pick",
                    "shared_by": 2,
                    "off_peak_price": 0.2,
                    "nodes": [
                        {"id": "dream", "off_peak": True, "input_tokens": 20, "output_tokens": 30},
                        {"id": "plan", "model": "planner", "output_tokens": 20, "keep_s": 1.0},
                        {"id": "maybe", "kind": "branch", "after": ["plan"], "probability": 0.5},
                        {"id": "else", "kind": "branch", "after": ["plan"], "otherwise": "maybe"},
                        {"id": "more", "after": ["maybe"], "output_tokens": 9, "repeat": 2, "delay_s": 0.1},
                        {"id": "less", "after": ["else"], "output_tokens": 5, "context": "fresh"},
                        {
                            "id": "solve",
                            "kind": "loop",
                            "after": ["more", "less"],
                            "times": 2,
                            "rejected": ["test"],
                            "nodes": [
                                _ATTEMPT,
                                {"id": "test", "kind": "tool", "tool": "tests", "after": ["write"], "of": "write"},
                            ],
                        },
                        {"id": "a", "attempt": True, "output_tokens": 20, "after": ["plan"], "worth": 2},
                        {"id": "b", "attempt": True, "output_tokens": 20, "after": ["plan"]},
                        {"id": "s", "kind": "score", "after": ["a"]},
                        {"id": "t", "kind": "score", "after": ["b"]},
                        {
                            "id": "one",
                            "kind": "join",
                            "after": ["s", "t"],
                            "choose": "accepted",
                            "early": True,
                            "cancels": ["a", "b", "s", "t"],
                        },
                        {"id": "pick", "kind": "join", "after": ["solve", "one"], "choose": "majority"},
                        {"id": "end", "after": ["pick"], "context": "joined", "reuse": True, "output_tokens": 4},
                    ],
                }
            },
        },
    },
]
INCIDENTS = """\
time,cause,node,detected,resolved
2026-01-01T00:00:00,gpu memory,n1,2026-01-01T00:01:00,2026-01-01T00:31:00
2026-01-03T00:00:00,network,n2,2026-01-03T00:11:00,2026-01-03T01:31:00
2026-01-09T07:00:00,gpu memory,n1,2026-01-09T07:02:00,2026-01-09T08:00:00
2026-01-20T00:00:00,software,,2026-01-20T00:01:00,2026-01-20T00:05:00
"""


def scenarios(verb: str) -> list[dict[str, Any]]:
    """Scenarios that a verb reads: examples, and small ones that state many fields."""
    if verb == "train":
        return copy.deepcopy(_examples("") + TRAINING)
    if verb == "serve":
        return copy.deepcopy(_examples("serving") + SERVING)
    if verb in ("run", "cluster"):
        return copy.deepcopy(RUNS if verb == "run" else CLUSTERS)
    if verb == "learn":
        return copy.deepcopy(LEARNING)
    if verb == "reason":
        return copy.deepcopy(REASONING)
    return copy.deepcopy(SEARCH)


_DENSE = {
    "architectures": ["XForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0},
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "sliding_window": 1024,
    "layer_types": ["full_attention", "sliding_attention"] * 4,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
SMALL_CONFIG = {**_DENSE, "model_type": "llama"}
"""A `config.json` beside a scenario."""
_EXPERTS = {
    "num_experts": 16,
    "n_routed_experts": 16,
    "num_local_experts": 16,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 512,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [0],
}
_LATENT = {"q_lora_rank": 256, "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64}
_STATES = {
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_n_heads": 32,
    "mamba_d_head": 64,
    "mamba_n_groups": 1,
    "state_size": 16,
    "conv_kernel": 4,
    "expand": 2,
    "ssm_state_size": 64,
    "mamba_num_heads": 32,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "hybrid_override_pattern": "M-M*M-M-",
    "attn_layer_period": 4,
    "attn_layer_offset": 2,
    "linear_num_value_heads": 16,
    "linear_num_key_heads": 8,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "num_heads": 16,
}
_PAIRS = {
    "d_model": 512,
    "d_ff": 2048,
    "d_kv": 64,
    "num_layers": 6,
    "num_decoder_layers": 6,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "num_mel_bins": 80,
    "max_source_positions": 1500,
    "feed_forward_proj": "gated-gelu",
    "is_encoder_decoder": True,
}
_TOWER = {
    "text_config": _DENSE | {"model_type": "llama"},
    "vision_config": {
        "model_type": "vit",
        "hidden_size": 512,
        "intermediate_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 8,
        "image_size": 224,
        "patch_size": 14,
    },
}
CONFIGS: list[dict[str, Any]] = [
    {"model_type": "llama", **_DENSE},
    {"model_type": "mixtral", **_DENSE, **_EXPERTS},
    {"model_type": "deepseek_v3", **_DENSE, **_EXPERTS, **_LATENT},
    {"model_type": "nemotron_h", **_DENSE, **_STATES},
    {"model_type": "qwen3_next", **_DENSE, **_EXPERTS, **_STATES},
    {"model_type": "t5", **_DENSE, **_PAIRS},
    {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
        "n_inner": None,
    },
    {"model_type": "gemma3", **_TOWER},
    {
        "model_type": "llava",
        **_TOWER,
        "audio_config": {"d_model": 256, "encoder_layers": 2, "encoder_attention_heads": 4},
    },
]


@cache
def model_types() -> list[str]:
    """Model types of Hugging Face that are read, each by its own rules."""
    from windtunnel.importers import huggingface
    from windtunnel.importers.huggingface import known_types

    return sorted({*known_types.TRAITS, *huggingface.READERS, *known_types.READ_BY_MEANING, *known_types.REFUSED})


MEGATRON = """\
#!/bin/bash
# pretraining on two nodes
export CUDA_DEVICE_MAX_CONNECTIONS=1
TP=8
PP=${PP:-4}
NODES=8
DIST=(
  --nproc-per-node 8   # one a device
  --nnodes $NODES
)
MODEL_ARGS=(
    --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64
    --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm
    --seq-length 8192 --vocab-size 128256 --tokenizer-type GPT2BPETokenizer
)
OPT="--lr 1e-4 --bf16 \\
   --micro-batch-size 1 --global-batch-size $((NODES * 8 * 4))"
if [ "$TP" -gt 1 ]; then
  OPT="$OPT --sequence-parallel"
fi
torchrun ${DIST[@]} pretrain_gpt.py "${MODEL_ARGS[@]}" $OPT \\
   --tensor-model-parallel-size ${TP} --pipeline-model-parallel-size $PP \\
   --num-layers-per-virtual-pipeline-stage 5 --use-distributed-optimizer \\
   --overlap-grad-reduce --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \\
   --num-experts 8 --expert-model-parallel-size 2 --moe-router-topk 2 --cp-comm-type a2a
"""
VLLM = """\
# one node
export VLLM_USE_V1=1
MODEL="Qwen/Qwen3-32B"
pip install -U vllm
vllm serve $MODEL -tp 4 \\
  --max_num_seqs 64 --max-model-len=16k --gpu-memory-utilization 0.9 \\
  --speculative-config '{"method": "ngram", "num_speculative_tokens": 3}' \\
  --kv-cache-dtype fp8 --enable-prefix-caching --max-num-batched-tokens 8192 --data-parallel-size 2
vllm bench serve --model $MODEL --dataset-name random --random-input-len 1024 --random-output-len 128 \\
  --request-rate 8 --num-prompts 100 --max-concurrency 32
"""
SGLANG = """\
docker run --gpus all --shm-size 32g -p 30000:30000 lmsysorg/sglang:latest \\
  python3 -m sglang.launch_server --model-path Qwen/Qwen3-32B --tp 8 --mem-fraction-static 0.85 \\
  --chunked-prefill-size 4096 --max-running-requests 128 --kv-cache-dtype fp8_e5m2 --schedule-policy lpm --dp 1
"""
TRTLLM = """\
cat >./extra.yml <<EOF
enable_attention_dp: true
kv_cache_config:
  free_gpu_memory_fraction: 0.8
EOF
trtllm-serve Qwen/Qwen3-32B --tp_size 8 --max_batch_size 64 --max_num_tokens 8192 --extra_llm_api_options ./extra.yml
"""
KUBERNETES = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.10.0
        env:
        - {name: MODEL, value: Qwen/Qwen3-32B}
        args: [--model, $(MODEL), --tensor-parallel-size, "2", --gpu-memory-utilization=0.85]
        resources: {limits: {nvidia.com/gpu: 2}}
---
kind: Service
"""
COMPOSE = """\
services:
  llm:
    image: vllm/vllm-openai:latest
    environment:
      HF_TOKEN: ${HF_TOKEN}
    command: >
      --model Qwen/Qwen3-32B
      --tensor-parallel-size ${TP:-2}
"""
TORCHTITAN = """\
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
seq_len = 8192
[parallelism]
data_parallel_replicate_degree = 2
tensor_parallel_degree = 2
pipeline_parallel_degree = 1
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
[compile]
enable = true
components = ["model", "loss"]
"""
TITAN_PYTHON = """\
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

def ours() -> Trainer.Config:
    return Trainer.Config(
        model_spec=model_registry("70B"),
        training=TrainingConfig(local_batch_size=8, seq_len=8192, steps=1000),
        parallelism=ParallelismConfig(tensor_parallel_degree=8, enable_sequence_parallel=False),
    )
"""
BRIDGE = """\
from megatron.bridge import AutoBridge

SEQUENCE: int = 8192

def big_config():
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Llama-3.1-70B").to_megatron_provider(load_weights=False)
    cfg.model.seq_length = SEQUENCE
    cfg.model.tensor_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_size = 4
    cfg.train.global_batch_size = 128 // 2
    cfg.train.micro_batch_size = 1
    cfg.model.recompute_modules = ["core_attn", "layernorm"]
    cfg.mixed_precision = bf16_with_mxfp8_mixed()
    return cfg
"""
BRIDGE_YAML = """\
model:
  tensor_model_parallel_size: 2
  context_parallel_size: 2
  seq_length: 4096
  recompute_granularity: full
  recompute_method: block
  recompute_num_layers: 4
train:
  global_batch_size: 64
  micro_batch_size: 2
ddp:
  use_megatron_fsdp: true
mixed_precision: bf16_mixed
"""
AXOLOTL = """\
base_model: meta-llama/Llama-3.1-8B
load_in_4bit: true
adapter: qlora
lora_r: 32
lora_alpha: 16
lora_target_linear: true
sequence_len: 4096
sample_packing: true
micro_batch_size: 2
gradient_accumulation_steps: 4
optimizer: adamw_bnb_8bit
bf16: auto
gradient_checkpointing: true
flash_attention: true
deepspeed: deepspeed_configs/zero2.json
"""
LOAD = """\
load:
  type: poisson
  stages:
  - {rate: 4, duration: 30}
api: {type: completion}
data:
  type: shared_prefix
  shared_prefix: {num_groups: 8, num_prompts_per_group: 3, system_prompt_len: 1000, question_len: 50, output_len: 20}
"""
GUIDELLM = """\
guidellm benchmark --target http://x --rate-type constant --rate 10 --max-seconds 30 \\
  --data "prompt_tokens=256,output_tokens=128,prefix_tokens=64"
genai-perf profile -m x --synthetic-input-tokens-mean 200 --synthetic-input-tokens-stddev 20 --concurrency 10
"""
DEEPSPEED = json.dumps(
    {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 2,
            "overlap_comm": True,
            "reduce_bucket_size": 500000000,
            "offload_optimizer": {"device": "cpu", "pin_memory": True},
        },
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "steps_per_print": 10,
    },
    indent=1,
)
MARKDOWN = f"""\
# How to serve it

Install it first.

```bash
{VLLM}```

Or with Kubernetes:

```yaml
{KUBERNETES}```
"""
LAUNCH = {
    "train.sh": MEGATRON,
    "serve.sh": VLLM,
    "sglang.sh": SGLANG,
    "trtllm.sh": TRTLLM,
    "deploy.yaml": KUBERNETES,
    "docker-compose.yml": COMPOSE,
    "train.toml": TORCHTITAN,
    "titan.py": TITAN_PYTHON,
    "bridge.py": BRIDGE,
    "bridge.yaml": BRIDGE_YAML,
    "axolotl.yml": AXOLOTL,
    "load.yaml": LOAD,
    "load.sh": GUIDELLM,
    "ds_config.json": DEEPSPEED,
    "README.md": MARKDOWN,
}
"""File name → text."""


def _jsonl(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def traces() -> dict[str, str]:
    """File name → text of traces of requests, in the formats that `import` reads."""
    from request_traces import FILES, TABLE

    found = {f"{format}{'.csv' if text[0] not in '[{' else '.jsonl'}": text for format, (_, text) in FILES.items()}
    return found | {"table.csv": TABLE}


def kineto(spread: float = 1.0) -> dict[str, Any]:
    """A PyTorch profiler's trace of two steps."""
    from kineto_traces import NVJET, kernel, step_range

    events = []
    for step in range(2):
        begin = 2000.0 * step * spread
        events.append(step_range(step, begin, begin + 1500))
        for i in range(4):
            events += kernel(NVJET, begin + 100 + 200 * i, 150.0)
            events += kernel("ncclDevKernel_AllGather_RING_LL(...)", begin + 150 + 200 * i, 90.0, stream=20)
        events += kernel("flash_fwd_kernel", begin + 1000, 100.0)
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": events}


NCCL = """\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1
# Using devices
#  Rank  0 Group  0 Pid   4711 on      nodeA device  0 [0000:0f:00] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid   4712 on      nodeA device  1 [0000:15:00] NVIDIA A100-SXM4-80GB
#
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           128     float     sum      -1    20.00    0.05    0.03       0    99.00    0.01    0.01       0
        2048           256     float     sum      -1    21.00    0.10    0.05       0    99.00    0.02    0.01     N/A
     1048576        262144     float     sum      -1    41.00   25.57   25.57       0    42.00   24.97   24.97       0
   268435456      67108864     float     sum      -1   1210.0   221.8   221.8       0   1212.0   221.5   221.5       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.04
#
# Collective test concluded: all_reduce_perf
"""
LOGS = """\
training.seq_len,plan.mbs,training.global_batch,step_time_s,peak_memory_bytes
1024,2,16,0.021,
4096,2,16,0.082,9e9
8192,2,16,0.181,
4096,1,16,0.083,8e9
8192,1,16,0.182,
"""
PROFILE = {
    "id": "mine",
    "name": "Mine",
    "vendor": "nvidia",
    "generation": "hopper",
    "memory_bytes": "80 GB",
    "memory_bytes_per_s": "3.35 TB/s",
    "peak_flop_per_s": {"bf16": "989 TFLOP/s"},
}


def rows() -> list[dict[str, Any]]:
    """Measured rows for `validate`."""
    from measured_rows import row

    return [row(), row(id="y", hardware__count=32, seq_len=4096)]
