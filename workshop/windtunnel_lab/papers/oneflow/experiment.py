"""Throughput of OneFlow's own library under each way to split a model, over that of one GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

from windtunnel import api
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def scenario(values: Values, name: str, row: Values, **more: Any) -> Values:
    """One row of the page."""
    axes = {axis: row.get(axis, 1) for axis in ("dp", "tp", "pp")}
    gpus = axes["dp"] * axes["tp"] * axes["pp"]
    per_node = min(gpus, fixed("per_node"))
    return {
        "model": fixed(name)["model"],
        "cluster": {
            "device": fixed("device"),
            "nodes": gpus // per_node,
            "devices_per_node": per_node,
            "scale_out": {
                "nics_per_node": 1,
                "nic_bytes_per_s": values["nic_gbit"] * 1e9 / 8 * per_node / fixed("per_node"),
            },
        },
        "training": {
            "seq_len": fixed(name)["seq_len"],
            "global_batch": row["batch"],
            "precision": fixed("precision"),
            "framework": fixed("framework"),
            "attention": fixed("attention"),
        },
        "plan": axes
        | {
            "sp": False,
            "zero": 0,
            "mbs": row["mbs"],
            "recompute": {"policy": "full" if row.get("recompute") else "none"},
            "overlap": {"grad_reduce": True},
        },
    } | more


def gain(values: Values, name: str, key: str) -> float:
    """Samples a second of a row over those of one GPU with the same recomputation."""
    rows = EXPERIMENT.setting["rows"][name]
    row = rows[key]
    one = rows["one/recomputed" if row.get("recompute") else "one"]
    rate = [r["batch"] / simulated(scenario(values, name, r)).step_time_s for r in (row, one)]
    return float(rate[0] / rate[1])


def chosen(values: Values, name: str) -> float:
    """Tensor size that the technique takes where data parallelism's row stands."""
    row = EXPERIMENT.setting["rows"][name]["data/8"]
    return float(api.prepare(scenario(values, name, row, techniques=["oneflow"]))[0].plan.tp)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    keys = ("data/8", "data/32", "tensor/4", "tensor/8", "pipeline/4", "mesh")
    out: dict[str, Measure] = {}
    for key in keys:
        axis, _, gpus = key.partition("/")
        for name in ("gpt2", "bert"):
            out[f"{axis}/{name}" + (f"-{gpus}" if gpus else "")] = partial(gain, name=name, key=key)
    return out | {f"choice/{name}": partial(chosen, name=name) for name in ("gpt2", "bert")}
