"""Throughput of a GPU with its host's memory, over one that copies experts on demand."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__, "moe-lens")
fixed = EXPERIMENT.fixed


def rate(values: Values, answer: int, techniques: list[Any]) -> float:
    """Output tokens a second."""
    scenario = {
        "model": fixed("model"),
        "cluster": {
            "device": "a40-48gb",
            "nodes": 1,
            "devices_per_node": 1,
            "memory_bytes": f"{values['gpu_gib']} GiB",
        },
        "serving": {
            "engine": "vllm",
            "expert_storage": {"cached": 0.07, "bytes_per_s": values["pcie_gb_per_s"] * 1e9},
            "pools": [{"limits": {"max_num_seqs": 4096, "max_num_batched_tokens": fixed("batched_tokens")}}],
            "traffic": {
                "offline": True,
                "num_requests": fixed("requests"),
                "input_tokens": values["prompt"],
                "output_tokens": answer,
            },
        },
        "techniques": techniques,
    }
    return served(scenario).output_tokens_per_s


def gain(values: Values, answer: int) -> float:
    """Over the baseline, for answers of one length."""
    chosen = [{"moe-lens": {"pcie_gb_per_s": values["pcie_gb_per_s"]}}]
    return rate(values, answer, chosen) / rate(values, answer, [])


def speedup(values: Values) -> float:
    """Average over answers."""
    gains = [gain(values, answer) for answer in fixed("answers")]
    return sum(gains) / len(gains)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    short, long = fixed("answers")[0], fixed("answers")[-1]
    return {"speedup": speedup, "grows": lambda values: gain(values, long) / gain(values, short)}


def plot(results: list[ClaimResult]) -> Any:
    """Gain over the length of answers."""
    line = curve(fixed("answers"), partial(gain, central(EXPERIMENT.setting)))
    level = {f"published mean: {results[0].published:g}": results[0].published}
    return beside({fixed("model"): {"MoE-Lens": line}}, "tokens of an answer", "gain", log_x=True, levels=level)
