"""Utilisation of wide dense Transformers on TPU v3 pods, weights split over both axes of the mesh."""

from __future__ import annotations

from functools import partial

from windtunnel_lab.reproduce.claims import Measure, Simulated, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def step(values: Values, size: str, axis: int, *, both: bool = True) -> Simulated:
    """One step on a mesh with `axis` chips along features."""
    shape = EXPERIMENT.setting["models"][size]
    chips = shape["chips"]
    batch = max(int(values["sequences_per_chip"] * chips), chips // axis)
    return simulated(
        {
            "model": {
                "name": f"Transformer of {size}",
                "family": "dense",
                "hidden_size": shape["hidden"],
                "num_hidden_layers": shape["layers"],
                "num_attention_heads": shape["heads"],
                "head_dim": 256,
                "intermediate_size": shape["ffn"],
                "vocab_size": fixed("vocab_size"),
                "gated_mlp": False,
                "hidden_act": "relu",
                "norm": "layernorm",
                "tie_word_embeddings": True,
            },
            "cluster": {
                "device": fixed("device"),
                "nodes": chips // fixed("chips_per_host"),
                "devices_per_node": fixed("chips_per_host"),
                "scale_up_domain": chips,
            },
            "training": {
                "seq_len": fixed("seq_len"),
                "global_batch": batch,
                "framework": fixed("framework"),
                "optimizer": fixed("optimizer"),
            },
            "plan": {"mbs": batch * axis // chips, "recompute": {"policy": fixed("recompute")}, "zero": 1},
            "techniques": [{"gspmd": {"model": axis, "shard_weights": both}}],
        }
    )


def axes(values: Values, size: str) -> list[int]:
    """Sizes of the axis of features that leave whole sequences to each row of the mesh."""
    chips = EXPERIMENT.setting["models"][size]["chips"]
    return [n for n in fixed("model_axis") if n <= chips and values["sequences_per_chip"] * n >= 1]


def fastest(values: Values, size: str) -> tuple[int, Simulated]:
    """The fastest mesh that fits, and its step."""
    found = [(n, step(values, size, n)) for n in axes(values, size)]
    return min((x for x in found if x[1].fits), key=lambda x: x[1].step_time_s)


def rate(values: Values, size: str) -> float:
    """Per cent of peak."""
    return 100 * fastest(values, size)[1].mfu


def memory(values: Values) -> float:
    """One axis over both, at the fastest mesh."""
    axis, both = fastest(values, "64b")
    return step(values, "64b", axis, both=False).reserved_bytes / both.reserved_bytes


def slower(values: Values) -> float:
    """All chips along features over the fastest mesh."""
    chips = EXPERIMENT.setting["models"]["64b"]["chips"]
    return step(values, "64b", chips).step_time_s / fastest(values, "64b")[1].step_time_s


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    out: dict[str, Measure] = {f"rate/{size}": partial(rate, size=size) for size in ("64b", "256b", "1t")}
    return out | {"two-axes/memory": memory, "one-axis/slower": slower}
