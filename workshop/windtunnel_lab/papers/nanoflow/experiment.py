"""Offline throughput with nano-batches, next to engines that run one kernel after the other."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
NANO, PLAIN, TRTLLM, VLLM = "nano-batches", "the same without", "TensorRT-LLM", "vLLM"


def scenario(system: str) -> Values:
    """One offline batch on eight A100."""
    own = system in (NANO, PLAIN)
    pool: Values = {"plan": {"tp": fixed("tp")}}
    if own:
        pool |= {
            "policy": "sarathi",
            "limits": {
                "max_num_seqs": 2048,
                "max_num_batched_tokens": fixed("dense_batch"),
                "chunked_prefill": True,
                "host_ahead": True,
            },
        }
    engine, version = {
        VLLM: ("vllm", fixed("vllm_version")),
        TRTLLM: ("trtllm", fixed("baseline_version")),
    }.get(system, ("generic", ""))
    return {
        "model": fixed("model"),
        "cluster": {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": fixed("tp")},
        "techniques": ["nanoflow"] if system == NANO else [],
        "serving": {
            "engine": engine,
            "engine_version": version,
            "pools": [pool],
            "traffic": {
                "offline": True,
                "num_requests": fixed("requests"),
                "input_tokens": fixed("input"),
                "output_tokens": fixed("output"),
            },
        },
    }


def rate(system: str) -> float:
    """Tokens per second and GPU, prompts and answers."""
    return served(scenario(system)).total_tokens_per_s / float(fixed("tp"))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "optimal": lambda v: rate(NANO) / v["optimal_tokens_per_s"],
        "tensorrt-llm": lambda _: rate(NANO) / rate(TRTLLM),
        "vllm": lambda _: rate(NANO) / rate(VLLM),
        "overlap": lambda _: rate(NANO) / rate(PLAIN),
    }
