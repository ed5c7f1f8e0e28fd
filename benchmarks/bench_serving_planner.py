"""How fast deployments are searched, beside the peers' figures. `python benchmarks/bench_serving_planner.py [WORDS]`

Peers, measured on two cores: AIConfigurator 0.12.0 screens 95 candidates a second and takes 14.3 s for the first
question and 41.0 s for the second; APEX 0.18 plans a second. Each of our candidates is one deployment at one load.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

from windtunnel import api
from windtunnel.planner.serving.plan_deployment import ServingPlan
from windtunnel.views.plan_serving_labels import cut_words

EXAMPLES = Path(__file__).parents[1] / "examples" / "search"
PLANS = Path(__file__).parent / "serving_plans"
CASES = {
    "Qwen3-32B, 32 H200": ("serving-qwen3-32b-32xh200", "14.3 s"),
    "DeepSeek-V3, 32 H200": ("serving-deepseek-v3-32xh200", "41.0 s"),
    "Qwen3-32B, 8 requests/s": ("serving-qwen3-32b-rate", ""),
    "Llama-3.1-8B, four device types": ("serving-llama3-8b-devices", ""),
    "Qwen3-30B-A3B, front": ("serving-qwen3-30b-a3b-front", ""),
    "DeepSeek-R1, GB200 NVL72": (PLANS / "gb200-nvl72-deepseek-r1", ""),
    "agents on 32 H200": (PLANS / "agents-llama3-70b-32xh200", ""),
    "Qwen3-30B-A3B, 4 L40S": (PLANS / "qwen3-30b-a3b-4xl40s", ""),
}


def main() -> None:
    """One line a case whose name has the words that were given, or all: the second search of each, warm."""
    wanted = " ".join(sys.argv[1:])
    head = f"{'candidates':>11s} {'simulated':>10s} {'wall s':>7s} {'CPU s':>7s} {'screened/s':>11s}"
    print(f"{'case':32s} {head}  AIConfigurator  best")
    for name, (file, peer) in CASES.items():
        if wanted not in name:
            continue
        path = EXAMPLES / f"{file}.yaml"
        api.plan(path)
        begun, busy = time.perf_counter(), time.process_time()
        plan = api.plan(path)
        took, busy = time.perf_counter() - begun, time.process_time() - busy
        assert isinstance(plan, ServingPlan)
        first = plan.objectives[0]
        best = f"{cut_words(plan.best)}, {first.replace('_', ' ')} {plan.best.values[first]:,.4g}"
        numbers = f"{plan.proof.candidates:11,d} {plan.evaluated:10,d} {took:7.1f} {busy:7.1f}"
        print(f"{name:32s} {numbers} {plan.screened_per_s:11,.0f}  {peer:>14s}  {best}", flush=True)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory {used:,.0f} MiB; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
