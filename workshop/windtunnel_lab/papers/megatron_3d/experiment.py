"""Where tensor, pipeline and data parallelism belong, as simulated throughput and as the planner's own choice."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, least_fall, planned, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import Points, beside
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "megatron-3d")
fixed = EXPERIMENT.fixed
DOUBLINGS = (2, 4, 8, 16, 32)
FIGURE_12_BATCHES = (12, 24, 36, 48, 60)
ZERO_3 = {"175b": {384: 4, 768: 2, 1536: 1}, "530b": {640: 4, 1120: 2, 2240: 1}}
"""Model → GPUs → micro-batch of Table 2."""
PTD = {"175b": (384, 768, 1536), "530b": (560, 1120, 2240)}
BATCH = {"175b": 1536, "530b": 2240}


def model(name: str, layers: int | None = None) -> Values:
    """A GPT of the paper: four times wider MLP, learned positions, tied embeddings."""
    shape = EXPERIMENT.setting["models"][name]
    return {
        "name": f"GPT of {name}",
        "family": "dense",
        "hidden_size": shape["hidden"],
        "num_hidden_layers": layers or shape["layers"],
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
        "max_position_embeddings": fixed("seq_len"),
    }


def scenario(
    shape: Values,
    gpus: int,
    batch: int,
    values: Values,
    *,
    framework: str = "megatron_2021",
    plan: Values | None = None,
    **more: Any,
) -> Values:
    """One training step on DGX A100 nodes."""
    per_node = fixed("devices_per_node")
    return {
        "model": shape,
        "cluster": {
            "device": "a100-sxm-80gb",
            "nodes": gpus // per_node,
            "devices_per_node": per_node,
            "scale_out": {
                "nics_per_node": fixed("nics_per_node"),
                "nic_bytes_per_s": values["nic_gbit"] * 1e9 / 8,
                "latency_s": "4 us",
                "oversubscription": values["oversubscription"],
            },
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": batch,
            "precision": fixed("precision"),
            "framework": framework,
        },
        "plan": {"zero": 0, "recompute": {"policy": fixed("recompute")}} | (plan or {}) | more,
    }


def step_s(step: Values) -> float:
    """Seconds of one step."""
    return simulated(step).step_time_s


def best_plan(step: Values, **space: tuple[int, ...]) -> Values:
    """The planner's choice among the listed axis values; what it does not name is 1."""
    chosen: Values = planned(step | {"search": {"space": {"cp": (1,)} | space}})["plan"]
    return chosen


def tflops(step: Values) -> float:
    """The paper's throughput per GPU: its equation (3), the recomputed forward counted, over the step time."""
    shape, batch, s = step["model"], step["training"]["global_batch"], step["training"]["seq_len"]
    layers, h = shape["num_hidden_layers"], shape["hidden_size"]
    flop = 96 * batch * s * layers * h**2 * (1 + s / (6 * h) + shape["vocab_size"] / (16 * layers * h))
    gpus = step["cluster"]["nodes"] * step["cluster"]["devices_per_node"]
    return float(flop / step_s(step) / gpus / 1e12)


def tp_against_pp(values: Values, batch: int, tp: int) -> float:
    """Step seconds of the 162B model with 64 / tp stages."""
    return step_s(scenario(model("figure_13"), 64, batch, values, tp=tp, pp=64 // tp))


def fastest_tp(values: Values, batch: int) -> float:
    """What the planner takes when no data parallelism is left (the paper's Figure 13)."""
    step = scenario(model("figure_13"), 64, batch, values, dp=1, mbs=1)
    return float(best_plan(step, tp=DOUBLINGS, pp=DOUBLINGS, vpp=(1,)).get("tp", 1))


def slower_by(values: Values, tp: int) -> float:
    """Time of another tp over that of the node's eight, the smaller of both batches."""
    return min(tp_against_pp(values, batch, tp) / tp_against_pp(values, batch, 8) for batch in (32, 128))


def kept_at_eight_stages(values: Values, batch: int) -> float:
    """Per-GPU throughput at eight stages over that at one, with three layers a stage."""
    per_stage = EXPERIMENT.setting["models"]["figure_11"]["layers_per_stage"]
    one, eight = (tflops(scenario(model("figure_11", per_stage * p), 8 * p, batch, values, tp=8, pp=p)) for p in (1, 8))
    return eight / one


def falls(values: Values, axis: str, batches: tuple[int, ...]) -> float:
    """Smallest ratio of throughput at one size of an axis to that at the next, data parallelism taking the rest."""
    return min(
        least_fall([1 / step_s(scenario(model("figure_14"), 64, b, values, plan={axis: k})) for k in DOUBLINGS])
        for b in batches
    )


def smallest_is_best(values: Values, axis: str, batches: tuple[int, ...]) -> float:
    """Largest size of an axis that the planner takes over the batches; the other model axis is 1."""
    other = "tp" if axis == "pp" else "pp"
    space = {axis: (1, *DOUBLINGS), other: (1,), "vpp": (1,)}
    return float(
        max(best_plan(scenario(model("figure_14"), 64, b, values, mbs=1), **space).get(axis, 1) for b in batches)
    )


def best_micro_batch(values: Values, batch: int) -> float:
    """What the planner takes on the 91B model."""
    step = scenario(model("figure_16"), 64, batch, values, tp=8, pp=8)
    return float(best_plan(step, mbs=(1, 2, 4, 8), vpp=(1,)).get("mbs", 1))


def interleaving_gain(values: Values, batch: int) -> float:
    """Time of plain over interleaved 1F1B with two layers a chunk."""
    plain = scenario(model("175b"), 96, batch, values, tp=8, pp=12, schedule="1f1b")
    chunked = scenario(model("175b"), 96, batch, values, tp=8, pp=12, vpp=4, schedule="interleaved_1f1b")
    return step_s(plain) / step_s(chunked)


def recompute_throughput(values: Values, policy: str) -> dict[int, float]:
    """Batch → sequences per second of the batches that fit, 145B, one replica."""
    out = {}
    for batch in (2**k for k in range(9)):
        step = scenario(model("figure_17"), 128, batch, values, tp=8, pp=16, recompute={"policy": policy})
        run = simulated(step)
        if run.fits:
            out[batch] = batch / run.step_time_s
    return out


def recompute_cost(values: Values) -> float:
    """Largest share of throughput that recomputation costs at a batch that fits without it."""
    without, full = recompute_throughput(values, "none"), recompute_throughput(values, "full")
    return max(1 - full[batch] / without[batch] for batch in without)


def recompute_worth(values: Values) -> float:
    """Best throughput with recomputation over the best without."""
    return max(recompute_throughput(values, "full").values()) / max(recompute_throughput(values, "none").values())


def trillion(values: Values) -> float:
    """TFLOP/s per GPU of the largest run."""
    return tflops(scenario(model("1t"), 3072, 3072, values, tp=8, pp=64))


def ptd(values: Values, name: str, gpus: int) -> float:
    """TFLOP/s per GPU of a row of Table 2 with model parallelism."""
    chunks = values[f"chunks_{name}"]
    stages = 12 if name == "175b" else 35
    return tflops(scenario(model(name), gpus, BATCH[name], values, tp=8, pp=stages, vpp=chunks))


def zero_3(values: Values, name: str, gpus: int) -> float:
    """TFLOP/s per GPU of a row of Table 2 under ZeRO-3 alone, which came from the DeepSpeed library."""
    mbs = ZERO_3[name][gpus]
    batch = gpus * mbs
    return tflops(
        scenario(model(name), gpus, batch, values, framework="megatron_deepspeed", tp=1, pp=1, zero=3, mbs=mbs)
    )


def leads(values: Values, name: str) -> list[float]:
    """PTD over ZeRO-3 at each size, fewest GPUs first."""
    pairs = zip(PTD[name], ZERO_3[name], strict=True)
    return [ptd(values, name, of_ptd) / zero_3(values, name, of_zero) for of_ptd, of_zero in pairs]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    out: dict[str, Measure] = {f"tp-pp/best-tp/b{b}": partial(fastest_tp, batch=b) for b in (32, 128)}
    out |= {
        "tp-pp/outside-node": partial(slower_by, tp=16),
        "tp-pp/more-stages": partial(slower_by, tp=4),
        "pp-weak/batch": lambda v: kept_at_eight_stages(v, 128) / kept_at_eight_stages(v, 8),
        "pp-dp/best-pp": partial(smallest_is_best, axis="pp", batches=(32, 128, 512)),
        "pp-dp/falls": partial(falls, axis="pp", batches=(32, 128, 512)),
        "tp-dp/falls": partial(falls, axis="tp", batches=(128, 512)),
        "tp-dp/best-tp": partial(smallest_is_best, axis="tp", batches=(128, 512)),
        "mbs/best/b128": partial(best_micro_batch, batch=128),
        "mbs/best/b512": partial(best_micro_batch, batch=512),
        "interleaving/small-batch": partial(interleaving_gain, batch=FIGURE_12_BATCHES[0]),
        "interleaving/shrinks": lambda v: least_fall([interleaving_gain(v, b) for b in FIGURE_12_BATCHES]),
        "interleaving/large-batch": partial(interleaving_gain, batch=FIGURE_12_BATCHES[-1]),
        "recompute/small-batch": recompute_cost,
        "recompute/large-batch": recompute_worth,
        "table-1/1t": trillion,
    }
    for name, sizes in PTD.items():
        out |= {f"table-2/ptd/{name}-{n}": partial(ptd, name=name, gpus=n) for n in sizes}
        out |= {f"table-2/zero3/{name}-{n}": partial(zero_3, name=name, gpus=n) for n in ZERO_3[name]}
    return out | {
        "table-2/ptd-over-zero3": lambda v: min(min(leads(v, name)) for name in PTD),
        "table-2/gap-widens": lambda v: min(least_fall(leads(v, name)[::-1]) for name in PTD),
    }


def plot(results: list[ClaimResult]) -> Any:
    """Rates of Table 2 over GPUs, a panel a model."""
    by = {r.id.removeprefix("megatron-3d/table-2/"): r for r in results}

    def points(kind: str, name: str, sizes: Iterable[int]) -> Points:
        rows = [(n, by[f"{kind}/{name}-{n}"]) for n in sizes]
        return [(float(n), one.published, one.simulated) for n, one in rows]

    panels = {
        name.upper(): {"PTD": points("ptd", name, PTD[name]), "ZeRO-3": points("zero3", name, ZERO_3[name])}
        for name in PTD
    }
    return beside(panels, "GPUs", "TFLOP/s per GPU", log_x=True)
