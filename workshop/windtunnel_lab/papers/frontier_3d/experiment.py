"""Rates, scaling and what raises or lowers throughput on MI250X nodes; layouts are the planner's choice."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from windtunnel_lab.reproduce.claims import Measure, least_fall, planned, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "frontier-3d")
fixed = EXPERIMENT.fixed
SIZES = ("22b", "175b", "1t")
GCDS_PER_NODE = 8


def scenario(size: str, gpus: int, batch: int, values: Values, **plan: Any) -> Values:
    """One training step on nodes of Frontier with full recomputation."""
    shape = EXPERIMENT.setting["models"][size]
    return {
        "model": {
            "name": f"GPT of {size}",
            "family": "dense",
            "hidden_size": shape["hidden"],
            "num_hidden_layers": shape["layers"],
            "vocab_size": fixed("vocab_size"),
            "num_attention_heads": shape["heads"],
            "intermediate_size": 4 * shape["hidden"],
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "position_embedding": "learned",
            "max_position_embeddings": values["seq_len"],
        },
        "cluster": {
            "device": "mi250x",
            "nodes": gpus // GCDS_PER_NODE,
            "devices_per_node": GCDS_PER_NODE,
            "scale_up": {
                "id": "xgmi",
                "bytes_per_s": values["xgmi_gb_per_s"] * 1e9,
                "latency_s": "1.9 us",
                "topology": "mesh",
                "family": "xgmi3",
            },
        },
        "training": {
            "seq_len": values["seq_len"],
            "global_batch": batch,
            "precision": fixed("precision"),
            "framework": fixed("framework"),
            "attention": values["attention"],
        },
        "plan": {"recompute": {"policy": "full"}, "schedule": None} | plan,
    }


def best(size: str, values: Values) -> Values:
    """The planner's layout of one model on its full machine."""
    step = scenario(size, fixed(f"gpus_{size}"), values[f"batch_{size}"], values)
    space = {axis: tuple(listed) for axis, listed in EXPERIMENT.setting["space"].items()}
    return planned(step | {"search": {"space": space}})


def rate(values: Values, size: str) -> float:
    """Per cent of a GCD's peak, counting what is recomputed as the framework's own report does."""
    return 100 * simulated(best(size, values)).hfu


def scaled(step: Values, gpus: int, batch: int) -> Values:
    """The given layout with another number of replicas."""
    plan = {name: value for name, value in step["plan"].items() if name != "dp"}
    return step | {
        "cluster": step["cluster"] | {"nodes": gpus // GCDS_PER_NODE},
        "plan": plan,
        "training": step["training"] | {"global_batch": batch},
    }


def efficiency(values: Values, size: str, weak: bool) -> float:
    """Per cent of the throughput per GCD that is left when the replicas grow to the full machine."""
    full = best(size, values)
    gpus, batch, fewer = fixed(f"gpus_{size}"), values[f"batch_{size}"], values[f"fewer_{size}"]
    part = scaled(full, gpus // fewer, batch // fewer if weak else batch)
    ratio = simulated(part).step_time_s / simulated(full).step_time_s
    return 100 * (ratio if weak else ratio / fewer)


def throughput(values: Values, gpus: int, batch: int, **plan: Any) -> float:
    """Sequences per second and GCD of the 22B model."""
    return batch / simulated(scenario("22b", gpus, batch, values, **plan)).step_time_s / gpus


def tp_falls(values: Values) -> float:
    """Smallest ratio of throughput at one tensor-parallel size to that at the next."""
    gpus, batch = fixed("gpus_22b"), values["batch_22b"]
    return least_fall([throughput(values, gpus, batch, tp=t, pp=4) for t in (2, 4, 8, 16)])


def largest_tp(values: Values) -> float:
    """Largest tensor-parallel size that the planner takes."""
    return float(max(best(size, values)["plan"].get("tp", 1) for size in SIZES))


def accumulation(values: Values) -> float:
    """Smallest gain from twice the micro-batches on 64 GCDs, tp 2 and eight stages."""
    rates = [throughput(values, 64, 4 * m, tp=2, pp=8) for m in (8, 16, 32, 64, 128)]
    return least_fall(rates[::-1])


def stages_fall(values: Values) -> float:
    """Smallest ratio of throughput at one pipeline depth to that at twice, with the batch and the GCDs kept."""
    return least_fall([throughput(values, 64, 128, tp=2, pp=p) for p in (4, 8, 16)])


def kept_with_stages(values: Values) -> float:
    """Throughput per GCD of one replica at 16 stages over four, eight micro-batches a stage at both."""
    deep, shallow = (throughput(values, 2 * p, 8 * p, tp=2, pp=p) for p in (16, 4))
    return deep / shallow


def flash_gain(values: Values) -> float:
    """Planner's step without FlashAttention over that with it."""
    without, used = (simulated(best("22b", values | {"attention": kind})) for kind in ("unfused", "flash2"))
    return without.step_time_s / used.step_time_s


def zero_1_memory(values: Values) -> float:
    """Reserved bytes without a sharded optimizer over those with."""
    step = best("175b", values)
    without, used = (simulated(step | {"plan": step["plan"] | {"zero": zero}}).reserved_bytes for zero in (0, 1))
    return without / used


def effects(values: Values) -> dict[str, float]:
    """How far each setting moves the mean throughput of 175B on 16 nodes; what does not fit counts as none."""
    axes = {"tp": (4, 8), "pp": (4, 8, 16), "mbs": (1, 2, 4, 8), "accumulation": (5, 10, 20), "zero": (0, 1)}
    gpus, rows = 128, []
    for tp, pp, mbs, accumulation_, zero in product(*axes.values()):
        batch = gpus // (tp * pp) * mbs * accumulation_
        if tp * pp > gpus:
            continue
        run = simulated(scenario("175b", gpus, batch, values, tp=tp, pp=pp, mbs=mbs, zero=zero))
        rows.append(((tp, pp, mbs, accumulation_, zero), batch / run.step_time_s if run.fits else 0.0))

    def mean(column: int, value: int) -> float:
        chosen = [rate_ for setting_, rate_ in rows if setting_[column] == value]
        return sum(chosen) / len(chosen)

    means = {axis: [mean(i, value) for value in listed] for i, (axis, listed) in enumerate(axes.items())}
    return {axis: max(found) - min(found) for axis, found in means.items()}


def rank(values: Values, axis: str) -> float:
    """1 for the setting with the largest effect."""
    found = effects(values)
    return float(sorted(found, key=lambda name: -found[name]).index(axis) + 1)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    out: dict[str, Measure] = {f"rate/{size}": partial(rate, size=size) for size in SIZES}
    out["rate/order"] = lambda values: least_fall([rate(values, size) for size in SIZES])
    for kind in ("weak", "strong"):
        out |= {f"{kind}/{size}": partial(efficiency, size=size, weak=kind == "weak") for size in SIZES[1:]}
    return out | {
        "tp/falls": tp_falls,
        "tp/node": largest_tp,
        "bubble/accumulation": accumulation,
        "bubble/stages": stages_fall,
        "bubble/kept": kept_with_stages,
        "flash-attention": flash_gain,
        "zero-1/memory": zero_1_memory,
        "tuning/first": partial(rank, axis="mbs"),
        "tuning/last": partial(rank, axis="zero"),
        "compute": lambda _: 6 * 1e12 * 20e12 / 1e18 / 1e6,
    }
