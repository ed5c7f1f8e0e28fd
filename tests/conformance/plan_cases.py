"""One plan for each value of each axis that a plan can choose, for tests that go through all launch targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from windtunnel import schedules
from windtunnel.specs.plan import RECOMPUTE_MODULES

CLUSTER = {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8}
DENSE, EXPERTS = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"
FRAMEWORK = {
    "megatron": "megatron_core",
    "megatron_bridge": "megatron_bridge",
    "torchtitan": "torchtitan",
    "deepspeed": "deepspeed",
}
_MIXTURE_MODULES = ("moe", "moe_act", "shared_experts")
_ORDERS = (["tp", "cp", "ep", "pp", "dp"], ["tp", "dp", "cp", "ep", "pp"], ["tp", "pp", "cp", "dp"])


def examples() -> list[Path]:
    """Examples on devices of one kind; groups of unlike ones are not exported."""
    found = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
    return [path for path in found if "groups" not in yaml.safe_load(path.read_text("utf-8"))["cluster"]]


def plans() -> dict[str, tuple[str, dict[str, Any]]]:
    """Name of a case → (model, plan as a scenario writes it)."""
    dense: dict[str, dict[str, Any]] = {
        "base": {},
        "tp": {"tp": 4},
        "tp, no sp": {"tp": 4, "sp": False},
        "mbs": {"mbs": 2},
        "bucket size": {"ddp_bucket_size": 50_000_000},
        "bucket size, zero 0": {"zero": 0, "ddp_bucket_size": 50_000_000},
        "pp": {"pp": 4},
        "pp, uneven": {"pp": 4, "stage_layers": [7, 8, 9, 8]},
        "pp, ends as layers": {"pp": 2, "vpp": 17, "embedding_as_layer": True, "loss_as_layer": True},
        "vpp": {"pp": 4, "vpp": 2},
        "vpp, uneven": {"pp": 4, "vpp": 2, "stage_layers": [3, 4, 4, 5, 4, 4, 5, 3]},
        "nvme": {"zero": 3, "offload": {"optimizer": 1.0, "params": 1.0, "tier": "nvme"}},
        "not resharded": {"zero": 3, "reshard_after_forward": False},
        "resharded in a pipeline": {"zero": 3, "pp": 2, "reshard_after_forward": True},
        "recompute full of 4": {"recompute": {"policy": "full", "num_layers": 4}},
        "recompute full of 3 in a pipeline": {"pp": 4, "vpp": 2, "recompute": {"policy": "full", "num_layers": 3}},
        "recompute full of some stages": {"pp": 4, "recompute": {"policy": "full", "num_layers": [8, 4, 2, 0]}},
        "recompute norm of 4": {"recompute": {"policy": "modules", "modules": ["norm"], "num_layers": 4}},
        "recompute without early stop": {"recompute": {"policy": "full", "early_stop": False}},
    }
    for kind in ("ring", "all_to_all", "all_gather"):
        dense[f"cp {kind}"] = {"cp": 4, "cp_kind": kind}
    dense["cp hybrid"] = {"cp": 4, "cp_kind": "hybrid", "cp_all_to_all": 2}
    for zero in range(4):
        dense[f"zero {zero}"] = {"zero": zero}
        dense[f"zero {zero}, shard group"] = {"zero": zero, "shard_group": 8}
    for name in schedules.list_ids():
        dense[f"schedule {name}"] = {"pp": 4, "schedule": name}
        dense[f"schedule {name}, vpp"] = {"pp": 4, "vpp": 2, "schedule": name}
        dense[f"schedule {name}, as many micro-batches as stages"] = {"pp": 4, "vpp": 2, "mbs": 4, "schedule": name}
    for policy in ("none", "selective", "full"):
        dense[f"recompute {policy}"] = {"recompute": {"policy": policy}}
    for part in ("activations", "optimizer", "params"):
        for share in (0.25, 1.0):
            dense[f"offload {part} {share}"] = {"offload": {part: share}}
            dense[f"offload {part} {share}, zero 3"] = {"zero": 3, "offload": {part: share}}
    dense["offload activations in a pipeline"] = {"pp": 2, "offload": {"activations": 0.5}}
    dense["offload activations, recompute norm"] = {
        "offload": {"activations": 0.5},
        "recompute": {"policy": "modules", "modules": ["norm"]},
    }
    dense["offload activations, recompute full"] = {"offload": {"activations": 1.0}, "recompute": {"policy": "full"}}
    for what in ("grad_reduce", "param_gather", "fsdp_prefetch"):
        for on in (False, True):
            for zero in (1, 3):
                dense[f"overlap {what} {on}, zero {zero}"] = {"zero": zero, "overlap": {what: on}}
    for on in (False, True):
        dense[f"overlap tp {on}"] = {"tp": 4, "overlap": {"tp": on}}
        dense[f"overlap p2p {on}"] = {"pp": 4, "vpp": 2, "overlap": {"p2p": on}}
        dense[f"overlap p2p {on}, one chunk"] = {"pp": 4, "overlap": {"p2p": on}}
    for order in _ORDERS:
        dense[f"order {'-'.join(order)}"] = {"tp": 2, "cp": 2, "pp": 2, "order": order}
    mixture: dict[str, dict[str, Any]] = {
        "base": {},
        "ep": {"ep": 8},
        "ep, tp": {"ep": 8, "tp": 2},
        "etp": {"ep": 4, "etp": 2, "tp": 2},
        "a2a overlapped": {"ep": 8, "overlap": {"moe_a2a": True}},
        "offload activations": {"ep": 8, "pp": 2, "offload": {"activations": 0.5}},
        "a2a not overlapped": {"ep": 8, "overlap": {"moe_a2a": False}},
    }
    for module in RECOMPUTE_MODULES:
        case = {"recompute": {"policy": "modules", "modules": [module]}}
        if module in _MIXTURE_MODULES:
            mixture[f"recompute {module}"] = {"ep": 8, **case}
        dense[f"recompute {module}"] = case
    named = {f"dense: {name}": (DENSE, plan) for name, plan in dense.items()}
    return named | {f"experts: {name}": (EXPERTS, plan) for name, plan in mixture.items()}


def scenario(model: str, plan: dict[str, Any], target: str) -> dict[str, Any]:
    """A plan on the target's own software."""
    work = {"seq_len": 8192, "global_batch": 128, "framework": FRAMEWORK[target]}
    return {"model": model, "cluster": CLUSTER, "training": work, "plan": plan}
