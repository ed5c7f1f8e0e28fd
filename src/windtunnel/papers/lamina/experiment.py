"""Tokens per second and dollar with attention on cheaper devices, beside devices of one kind."""

from __future__ import annotations

from typing import Any

from windtunnel.papers import ClaimResult
from windtunnel.papers.claims import Measure, Values, load, results, served
from windtunnel.serving.results import ServingResult
from windtunnel.techniques.limits import with_technique

TITLE = "Lamina, attention offloading (Chen et al. 2024)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.lamina")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def run_of(devices: int, values: Values, attention: int = 0) -> ServingResult:
    """An offline batch on so many compute devices, with or without devices for attention."""
    scenario = {
        "model": fixed("model"),
        "cluster": {"device": fixed("compute"), "nodes": 1, "devices_per_node": devices},
        "serving": {
            "engine": "vllm", "engine_version": "0.8.5",
            "pools": [{"plan": {"tp": devices}, "limits": {"max_num_seqs": 1024}, "kv": {"prefix_caching": False}}],
            "traffic": {
                "offline": True, "num_requests": fixed("requests"), "input_tokens": values["context"],
                "output_tokens": values["output"],
            },
        },
    }  # fmt: skip
    if attention:
        knobs = {"device": fixed("memory"), "count": attention, "nic_gbit": float(values["nic_gbit"])}
        scenario = with_technique(scenario, "lamina", knobs | {"latency_us": float(values["latency_us"])})
    return served(scenario)


def homogeneous(values: Values) -> float:
    """Best tokens per second and H100."""
    return max(run_of(n, values).output_tokens_per_s / n for n in fixed("homogeneous"))


def offloaded(values: Values) -> float:
    """Best tokens per second and money, an H100's hour being 1."""
    n = fixed("compute_devices")
    return max(
        run_of(n, values, m).output_tokens_per_s / (n + m / values["price_ratio"]) for m in fixed("attention_devices")
    )


def gain(values: Values) -> float:
    """Per dollar, offloaded over homogeneous."""
    return offloaded(values) / homogeneous(values)


def batch(values: Values) -> float:
    """Mean sequences of a batch with four attention devices over those without."""
    n = fixed("compute_devices")
    return run_of(n, values, 4).running_mean / run_of(n, values).running_mean


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "per-dollar": gain,
        "batch": batch,
        "context": lambda v: gain(v | {"context": 32768}) / gain(v | {"context": 2048}),
    }


def run() -> list[ClaimResult]:
    """Money, batches and contexts."""
    return results(setting(), "lamina", measures())
