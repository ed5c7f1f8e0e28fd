"""Caches, training FLOPs, bounds of the expert exchange, and the published training step."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from windtunnel import api, catalog, graph
from windtunnel.graph import Batch
from windtunnel.network.coefficients import NetworkCoefficients
from windtunnel.network.groups import placement
from windtunnel.network.model import NetworkModel
from windtunnel.serving.iteration.attention import layer_counts
from windtunnel.specs.cluster import ClusterRef
from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "deepseek-v3-codesign")
fixed = EXPERIMENT.fixed
MODELS = {
    "v3": "deepseek-ai/DeepSeek-V3",
    "v2": "deepseek-ai/DeepSeek-V2",
    "qwen72b": "Qwen/Qwen2.5-72B",
    "llama405b": "meta-llama/Llama-3.1-405B",
}


def cache_kb(_: Values, name: str) -> float:
    """Thousands of bytes a token that all layers keep."""
    model = catalog.model(MODELS[name])
    layers = sum(layer_counts(model)[:2])
    if model.is_mla:
        return 2.0 * layers * float((model.kv_lora_rank or 0) + model.qk_rope_head_dim) / 1e3
    size, heads, projections = model.attention_dims(windowed=False)
    return 2.0 * layers * projections * heads * size / 1e3


def training_gflops(_: Values, name: str) -> float:
    """A token's, forward and backward, of the trunk; a causal mask halves attention."""
    model = catalog.model(MODELS[name]).model_copy(update={"num_nextn_predict_layers": 0})
    built = graph.build(model, Batch.train(1, fixed("seq_len")))
    return (built.model_flop_per_token - 0.5 * built.attention_flop_per_token) / 1e9


def exchange_ms(_: Values, rate_gb_per_s: float) -> float:
    """Milliseconds of two exchanges a layer at the port's rate, without latency, as the paper counts them."""
    link = {"id": "port", "family": "generic", "bytes_per_s": rate_gb_per_s * 1e9, "latency_s": 0.0}
    ranks = 72
    cluster = catalog.resolve_cluster(
        ClusterRef.model_validate({"device": "h800-sxm-80gb", "nodes": 1, "devices_per_node": ranks, "scale_up": link})
    )
    network = NetworkModel(cluster, NetworkCoefficients.for_cluster(cluster))
    size = fixed("tokens") * fixed("experts") * fixed("hidden") * 1.5 * ranks / (ranks - 1.0)
    one = network.collective("all_to_all", size, placement(ranks, 1, ranks))
    sent = float(np.asarray(one.work_scale_up_bytes))
    return float(1e3 * 2.0 * 2.0 * fixed("layers") * sent / (rate_gb_per_s * 1e9))


@lru_cache(maxsize=8)
def _step(nic_share: float, *, limited: bool) -> tuple[float, float]:
    """Seconds of the published training step, and bytes that a rank sends out of its node in one layer's exchange."""
    chunks, layers, *ends = fixed("chunk_layers")
    step = {
        "model": MODELS["v3"],
        "cluster": {
            "device": "h800-sxm-80gb",
            "nodes": fixed("gpus") // 8,
            "devices_per_node": 8,
            "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": 50e9 * nic_share, "latency_s": "4 us"},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": fixed("global_batch"),
            "precision": "fp8_block",
            "framework": "megatron_core",
            "moe_dispatcher": "deepep",
        },
        "plan": {
            "pp": 16,
            "ep": 64,
            "mbs": 1,
            "zero": 1,
            "stage_layers": [layers] * chunks + ends,
            "recompute": {"policy": "modules", "modules": fixed("recomputed")},
        },
        "techniques": ["dualpipe", *(["deepseek-v3-codesign"] if limited else [])],
    }
    prepared, _ = api.prepare(step)
    out = sum(x.out_bytes for segment in prepared.stages.segments for x in segment.launches if x.name == "ep_dispatch")
    return simulate_training(step, sensitivities=False).step_time_s, out


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    out: dict[str, Measure] = {f"cache/{name}": partial(cache_kb, name=name) for name in ("v3", "qwen72b", "llama405b")}
    out |= {f"flops/{name}": partial(training_gflops, name=name) for name in MODELS}
    return out | {
        "limit/infiniband": partial(exchange_ms, rate_gb_per_s=50.0),
        "limit/nvl72": partial(exchange_ms, rate_gb_per_s=900.0),
        "train/step": lambda values: _step(values["nic_share"], limited=True)[0],
        "train/limit": lambda values: (
            _step(values["nic_share"], limited=True)[1] / _step(values["nic_share"], limited=False)[1]
        ),
    }
