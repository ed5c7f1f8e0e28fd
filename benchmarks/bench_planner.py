"""How fast spaces are searched exactly, beside the peer's figure. `python benchmarks/bench_planner.py`

Peer: Calculon evaluates 195 plans a second on one core; its option list for GPT-3 175B on 256 devices has 5.84 million
plans (about 8 hours).
"""

from __future__ import annotations

import os
import sys
import time
from itertools import permutations
from typing import Any

from windtunnel import api

A100 = {"device": "a100-sxm-80gb", "devices_per_node": 8}
SWITCHES: dict[str, Any] = {
    "sp": [False, True],
    "zero": [0, 1],
    "overlap_grad_reduce": [False, True],
    "overlap_p2p": [False, True],
    "overlap_tp": [False, True],
    "offload_optimizer": [0.0, 1.0],
    "recompute": ["none", "selective", "full"],
}
PEER: dict[str, Any] = {
    # tensor_par, pipeline_par, data_par, pipeline_interleaving, microbatch_size: tp, pp, dp, vpp, mbs are left open
    "cp": [1],
    # tensor_par_comm_type ar or rs_ag; the third, p2p_rs_ag (activations cut over tp only while they are sent), is what
    # this framework does without sequence parallelism, no choice; nor is seq_par_ag_redo: gathered again for backward
    "sp": [False, True],
    "recompute": ["none", "selective", "full"],  # activation_recompute none, attn_only, full
    "zero": [0, 1, 2],  # optimizer_sharding; the peer has no ZeRO-2
    "overlap_grad_reduce": [False, True],  # data_par_overlap
    "overlap_param_gather": [False, True],  # part of the same switch there
    "overlap_tp": [False, True],  # tensor_par_overlap none; ring or pipe: one method a framework here
    "overlap_p2p": [False, True],  # not in the peer's list
    "offload_params": [0.0, 1.0],  # weight_offload
    "offload_activations": [0.0, 1.0],  # activations_offload
    "offload_optimizer": [0.0, 1.0],  # optimizer_offload
    # tensor_par_net, pipeline_par_net, data_par_net (which of two networks carries an axis): which axes lie closer
    # together, over one network of nodes
    "order": [[*axes, "cp", "ep"] for axes in permutations(("tp", "dp", "pp"))],
    # fused_activation and attention_type are fixed there, and properties of the framework here
}
"""The option list that the peer's search goes through (Calculon, `llm-optimal-execution`): each option beside the axis
that says the same here."""
CASES: dict[str, dict[str, Any]] = {
    "Llama-3.1-70B, 64 H100": {
        "model": "meta-llama/Llama-3.1-70B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
        "training": {"seq_len": 8192, "global_batch": 128, "framework": "nemo"},
    },
    "GPT-3 175B, 256 A100, few switches": {
        "model": "gpt3-175b",
        "cluster": {**A100, "nodes": 32},
        "training": {"seq_len": 2048, "global_batch": 1024, "framework": "megatron_2022"},
        "search": {"space": {"cp": [1], "sp": [False, True], "zero": [0, 1]}},
    },
    "GPT-3 175B, 256 A100, all switches": {
        "model": "gpt3-175b",
        "cluster": {**A100, "nodes": 32},
        "training": {"seq_len": 2048, "global_batch": 1024, "framework": "megatron_2022"},
        "search": {"space": {"cp": [1], **SWITCHES}},
    },
    "GPT-3 175B, 256 A100, the peer's list": {
        "model": "gpt3-175b",
        "cluster": {**A100, "nodes": 32},
        "training": {"seq_len": 2048, "global_batch": 256, "framework": "megatron_2022"},
        "search": {"space": PEER},
    },
    "DeepSeek-V3, 2,048 H800, experts": {
        "model": "deepseek-ai/DeepSeek-V3",
        "cluster": {"device": "h800-sxm-80gb", "nodes": 256, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 16384, "framework": "megatron_core"},
        "search": {"space": {"cp": [1], "tp": [1, 2, 4, 8], "ep": [8, 16, 32, 64], "mbs": [1, 2, 4]}},
    },
    "1 T parameters, 4,096 A100": {
        "model": "nvidia/megatron-gpt-1008b",
        "cluster": {**A100, "nodes": 512},
        "training": {"seq_len": 2048, "global_batch": 4096, "framework": "megatron_2022"},
        "search": {"space": {"cp": [1]}},
    },
}


def cpu_s() -> float:
    """Processor seconds of this process and of those that it waited for."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def main() -> None:
    """One line a case whose name has the words that were given, or all."""
    wanted = " ".join(sys.argv[1:])
    api.plan({**CASES["Llama-3.1-70B, 64 H100"], "search": {"space": {"tp": [4], "pp": [4], "cp": [1]}}})  # compile
    head = ("candidates", "simulated", "wall s", "CPU s", "screened/s")
    print(f"{'case':38s} {head[0]:>12s} {head[1]:>10s} {head[2]:>8s} {head[3]:>8s} {head[4]:>11s}  best")
    for name, scenario in CASES.items():
        if wanted not in name:
            continue
        begun, busy = time.perf_counter(), cpu_s()
        result = api.plan(scenario)
        took, busy = time.perf_counter() - begun, cpu_s() - busy
        n, plan = result.proof.candidates, result.best.plan
        best = f"{result.best.step_time_s:.2f} s, tp {plan['tp']} pp {plan['pp']} vpp {plan['vpp']} mbs {plan['mbs']}"
        numbers = f"{n:12,d} {result.evaluated:10d} {took:8.1f} {busy:8.1f} {result.screened_per_s:11,.0f}"
        print(f"{name:38s} {numbers}  {best}", flush=True)
    print(f"peer: Calculon 195 plans/s on one core; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
