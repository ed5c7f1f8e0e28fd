"""How fast spaces are searched exactly, beside the peer's figure. `python benchmarks/bench_planner.py`

Peer: Calculon evaluates 195 plans a second on one core; its option list for GPT-3 175B on 256 devices has 5.84 million
plans (about 8 hours).
"""

from __future__ import annotations

import os
import time
from typing import Any

from windtunnel import api

A100 = {"device": "a100-sxm-80gb", "devices_per_node": 8}
SWITCHES: dict[str, Any] = {
    "sp": [False, True], "zero": [0, 1], "overlap_grad_reduce": [False, True], "overlap_p2p": [False, True],
    "overlap_tp": [False, True], "offload_optimizer": [0.0, 1.0], "recompute": ["none", "selective", "full"],
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "Llama-3.1-70B, 64 H100": {
        "model": "meta-llama/Llama-3.1-70B", "cluster": {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8},
        "training": {"seq_len": 8192, "global_batch": 128, "framework": "nemo"},
    },
    "GPT-3 175B, 256 A100, few switches": {
        "model": "gpt3-175b", "cluster": {**A100, "nodes": 32},
        "training": {"seq_len": 2048, "global_batch": 1024, "framework": "megatron_2022"},
        "search": {"space": {"cp": [1], "sp": [False, True], "zero": [0, 1]}},
    },
    "GPT-3 175B, 256 A100, all switches": {
        "model": "gpt3-175b", "cluster": {**A100, "nodes": 32},
        "training": {"seq_len": 2048, "global_batch": 1024, "framework": "megatron_2022"},
        "search": {"space": {"cp": [1], **SWITCHES}},
    },
    "GPT-3 175B, 256 A100, + offloading": {
        "model": "gpt3-175b", "cluster": {**A100, "nodes": 32},
        "training": {"seq_len": 2048, "global_batch": 1024, "framework": "megatron_2022"},
        "search": {"space": {
            "cp": [1], **SWITCHES, "overlap_param_gather": [False, True],
            "offload_activations": [0.0, 1.0], "offload_params": [0.0, 1.0],
        }},
    },
    "DeepSeek-V3, 2,048 H800, experts": {
        "model": "deepseek-ai/DeepSeek-V3", "cluster": {"device": "h800-sxm-80gb", "nodes": 256, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 16384, "framework": "megatron_core"},
        "search": {"space": {"cp": [1], "tp": [1, 2, 4, 8], "ep": [8, 16, 32, 64], "mbs": [1, 2, 4]}},
    },
    "1 T parameters, 4,096 A100": {
        "model": "nvidia/megatron-gpt-1008b", "cluster": {**A100, "nodes": 512},
        "training": {"seq_len": 2048, "global_batch": 4096, "framework": "megatron_2022"},
        "search": {"space": {"cp": [1]}},
    },
}  # fmt: skip


def main() -> None:
    """One line a case."""
    api.plan({**CASES["Llama-3.1-70B, 64 H100"], "search": {"space": {"tp": [4], "pp": [4], "cp": [1]}}})  # compile
    print(f"{'case':38s} {'candidates':>12s} {'simulated':>10s} {'seconds':>8s} {'plans/s':>10s}  best")
    for name, scenario in CASES.items():
        begun = time.perf_counter()
        result = api.plan(scenario)
        took = time.perf_counter() - begun
        n, plan = result.proof.candidates, result.best.plan
        best = f"{result.best.step_time_s:.2f} s, tp {plan['tp']} pp {plan['pp']} vpp {plan['vpp']} mbs {plan['mbs']}"
        print(f"{name:38s} {n:12,d} {result.evaluated:10d} {took:8.1f} {n / took:10,.0f}  {best}")
    print(f"peer: Calculon 195 plans/s on one core; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
