"""ZeroPP against breadth-first and 1F1B, parameters sharded inside nodes, stages across them."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, Simulated, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central, variants

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
LAYERS = {"gpt3-6.7b": 32, "gpt3-13b": 40}


def run_step(values: Values, micro_batches: int, plan: Values, knobs: Values | None = None) -> Simulated:
    """One step with the stages across nodes; `knobs` are ZeroPP's, absent: without it."""
    stages, per_node = fixed("nodes"), fixed("devices_per_node")
    rate = values["nic_gbit"] * 1e9 / 8 / per_node
    step: Values = {
        "model": values["model"],
        "cluster": {
            "device": fixed("device"),
            "nodes": stages,
            "devices_per_node": per_node,
            "scale_out": {"nics_per_node": per_node, "nic_bytes_per_s": rate},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": values["mbs"] * per_node * micro_batches,
            "precision": fixed("precision"),
            "framework": fixed("framework"),
        },
        "plan": {"pp": stages, "zero": 3, "reshard_after_forward": True, "mbs": values["mbs"]} | plan,
    }
    if knobs is not None:
        step["techniques"] = [{"zeropp": {"chunks": most_chunks(values)} | knobs}]
    return simulated(step)


def most_chunks(values: Values) -> int:
    """One layer a chunk."""
    return LAYERS[values["model"]] // int(fixed("nodes"))


def zeropp(values: Values, micro_batches: int, **knobs: Any) -> Simulated:
    """With the technique."""
    return run_step(values, micro_batches, {}, knobs)


def breadth_first(values: Values, micro_batches: int, chunks: int | None = None) -> Simulated:
    """All micro-batches through one chunk before the next, each chunk gathered once each way."""
    vpp = chunks or most_chunks(values)
    return run_step(values, micro_batches, {"schedule": "breadth_first", "vpp": vpp, "gather_per_block": True})


def one_f_one_b(values: Values, micro_batches: int, chunks: int | None = None) -> Simulated:
    """The fewest activations, and every gather once a micro-batch."""
    return run_step(values, micro_batches, {"schedule": "1f1b"})


def over(values: Values, other: Any, micro_batches: int, chunks: int | None = None) -> float:
    """Throughput over that of another."""
    own = zeropp(values, micro_batches, chunks=chunks or most_chunks(values))
    return float(other(values, micro_batches, chunks).step_time_s / own.step_time_s)


def largest(values: Values, other: Any) -> float:
    """Over the grid of micro-batches, with one chunk a stage and one a layer."""
    return max(over(values, other, m, c) for m in fixed("grid") for c in (1, most_chunks(values)))


def reachable(values: Values, other: Any) -> float:
    """The largest over the open settings, one at a time at its low and its high end."""
    ranges = variants(EXPERIMENT.setting, ("model", "mbs", "nic_gbit"))
    return max(largest(one, other) for one in (values, *ranges))


def least_memory(values: Values) -> float:
    """Reserved memory over 1F1B's, the smallest unit that is no slower."""
    m = values["micro_batches"]
    base = one_f_one_b(values, m)
    found = [zeropp(values, m, unit=unit) for unit in fixed("units")]
    return min(x.reserved_bytes for x in found if x.step_time_s <= base.step_time_s) / base.reserved_bytes


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    most = max(fixed("grid"))
    return {
        "gain/breadth-first/up-to": lambda v: reachable(v, breadth_first),
        "gain/1f1b/up-to": lambda v: reachable(v, one_f_one_b),
        "memory/1f1b": least_memory,
        "order/breadth-first": lambda v: over(v, breadth_first, v["micro_batches"]),
        "order/1f1b": lambda v: over(v, one_f_one_b, v["micro_batches"]),
        "order/memory": lambda v: breadth_first(v, most).reserved_bytes / zeropp(v, most).reserved_bytes,
    }


def plot(_: list[ClaimResult]) -> Any:
    """Gain over micro-batches at one chunk a stage and one a layer."""
    values, series = central(EXPERIMENT.setting), {}
    for name, other in (("breadth-first", breadth_first), ("1F1B", one_f_one_b)):
        for chunks, each in ((1, "stage"), (most_chunks(values), "layer")):
            line = curve(fixed("grid"), lambda m, o=other, c=chunks: over(values, o, m, c))
            series[f"over {name}, a chunk a {each}"] = line
    levels = {"published, breadth-first: up to 1.30": 1.30, "published, 1F1B: up to 1.68": 1.68}
    return beside({"central setting": series}, "micro-batches", "throughput", levels=levels)
