"""One controller against a launch on every host, stages against none, two islands against one."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def step_s(
    values: Values,
    size: str,
    chips: int,
    plan: Values,
    *,
    island: int | None = None,
    tokens: float | None = None,
    controller: bool = True,
    ahead: bool = True,
) -> float:
    """Seconds of a step on slices of `island` chips each (absent: one slice)."""
    shape, per_host = EXPERIMENT.setting["models"][size], fixed("chips_per_host")
    batch = int((tokens or values["tokens_per_core"]) * 2 * chips / fixed("seq_len"))
    step: Values = {
        "model": {
            "name": f"Transformer of {size}",
            "family": "dense",
            "hidden_size": shape["hidden"],
            "num_hidden_layers": shape["layers"],
            "num_attention_heads": shape["heads"],
            "intermediate_size": shape["ffn"],
            "vocab_size": 32000,
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "tie_word_embeddings": True,
        },
        "cluster": {
            "device": fixed("device"),
            "nodes": chips // per_host,
            "devices_per_node": per_host,
            "scale_up_domain": island or chips,
            "scale_out": {
                "nics_per_node": 1,
                "nic_bytes_per_s": values["dcn_gbit_per_host"] * 1e9 / 8,
                "latency_s": 1e-5,
                "family": "dcn",
            },
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": batch,
            "framework": fixed("framework"),
            "optimizer": "adafactor",
        },
        "plan": {"recompute": {"policy": "full"}} | plan,
    }
    if controller:
        hosts = chips // per_host // plan.get("pp", 1)
        step["techniques"] = [
            {
                "pathways": {
                    "ahead": ahead,
                    "latency_s": fixed("latency_s"),
                    "dispatch_s": fixed("launch_s_per_host") * max(hosts, 1),
                }
            }
        ]
    return simulated(step).step_time_s


def large(values: Values, **how: Any) -> float:
    """The 64B model, features over eight chips, weights sharded inside an island."""
    chips = fixed("chips_spmd")
    group = fixed("island") // 8 if how.get("island") else None
    mbs = int(values["tokens_per_core"] * 2 * 8 / fixed("seq_len"))
    return step_s(values, "64b", chips, {"tp": 8, "zero": 3, "mbs": mbs, "shard_group": group}, **how)


def spmd_3b(values: Values) -> float:
    """The 3B model without a pipeline."""
    tp = values["feature_chips"]
    mbs = int(values["tokens_per_core"] * 2 * tp / fixed("seq_len"))
    return step_s(values, "3b", fixed("chips_pipeline"), {"tp": tp, "zero": 1, "mbs": mbs})


def pipeline_3b(values: Values, **how: Any) -> float:
    """The 3B model in 16 stages, 64 micro-batches of whole sequences."""
    stages, chips = fixed("stages"), fixed("chips_pipeline")
    replicas = chips // stages
    batch = values["tokens_per_core"] * 2 * chips / fixed("seq_len")
    mbs = max(int(batch / replicas / fixed("micro_batches")), 1)
    return step_s(values, "3b", chips, {"pp": stages, "zero": 1, "mbs": mbs}, **how)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "utilisation/spmd": lambda v: large(v, controller=False) / large(v),
        "pipeline/spmd": lambda v: spmd_3b(v) / pipeline_3b(v),
        "islands/one": lambda v: large(v) / large(v, island=fixed("island")),
        "ahead/pipeline": lambda v: pipeline_3b(v, ahead=False) / pipeline_3b(v),
    }
