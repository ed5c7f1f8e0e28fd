"""Tokens per second and dollar with attention on cheaper devices, next to devices of one kind."""

from __future__ import annotations

import json
from functools import lru_cache

from windtunnel.serving.deployment import Deployment, prepare
from windtunnel.techniques.limits import with_technique
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=256)
def _deployed(text: str) -> Deployment:
    return prepare(json.loads(text))


def deployed(devices: int, values: Values, attention: int = 0) -> Deployment:
    """So many compute devices, with or without devices for attention."""
    limits = {name: fixed(name) for name in ("max_num_seqs", "gpu_memory_utilization")}
    scenario = {
        "model": fixed("model"),
        "cluster": {"device": fixed("compute"), "nodes": 1, "devices_per_node": devices},
        "serving": {
            "engine": "vllm",
            "engine_version": "0.8.5",
            "pools": [{"plan": {"tp": devices}, "limits": limits}],
            "traffic": {"offline": True, "num_requests": 1, "input_tokens": 1, "output_tokens": 1},
        },
    }
    if attention:
        knobs = {"device": fixed("memory"), "count": attention, "nic_gbit": float(values["nic_gbit"])}
        scenario = with_technique(scenario, "lamina", knobs | {"latency_us": float(values["latency_us"])})
    return _deployed(json.dumps(scenario, sort_keys=True))


def batch_of(devices: int, values: Values, attention: int = 0) -> int:
    """Sequences that the cache holds at the stated context."""
    tokens = deployed(devices, values, attention).instance.capacity.tokens
    return int(min(tokens // values["context"], fixed("max_num_seqs")))


def rate(devices: int, values: Values, attention: int = 0) -> float:
    """Tokens per second of decode steps at a full cache."""
    count = batch_of(devices, values, attention)
    if not count:
        return 0.0
    iteration = deployed(devices, values, attention).iteration
    return float(count / iteration.seconds(count, kv=count * values["context"], sequences=count))


def homogeneous(values: Values) -> float:
    """Best tokens per second and H100."""
    return max(rate(n, values) / float(n) for n in fixed("homogeneous"))


def offloaded(values: Values) -> float:
    """Best tokens per second and money, an H100's hour being 1."""
    n = int(fixed("compute_devices"))
    money = {m: float(n + m / values["price_ratio"]) for m in fixed("attention_devices")}
    return max(rate(n, values, m) / cost for m, cost in money.items())


def gain(values: Values) -> float:
    """Per dollar, offloaded over homogeneous."""
    return offloaded(values) / homogeneous(values)


def batch(values: Values) -> float:
    """Sequences with four attention devices over those of twice the compute devices without."""
    n = fixed("compute_devices")
    return batch_of(n, values, 4) / batch_of(2 * n, values)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "per-dollar": gain,
        "batch": batch,
        "context": lambda v: gain(v | {"context": 32768}) / gain(v | {"context": 2048}),
    }
