"""Balanced shares of a batch on two kinds of devices against an even split."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def step_s(values: Values, *, own: bool, alike: bool, by_layer: bool) -> float:
    """Seconds of a step."""
    devices = [fixed("fast"), fixed("fast") if alike else values["slow"]]
    step: Values = {
        "model": values["model"],
        "cluster": {
            "groups": [{"device": x, "nodes": 1, "devices_per_node": fixed("devices_per_node")} for x in devices],
            "between": {"nics_per_node": 1, "nic_bytes_per_s": f"{values['nic_gbit']} Gb/s"},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": values["batch"],
            "framework": fixed("framework"),
            "precision": fixed("precision"),
        },
        "plan": {"mbs": 1, "zero": 3, "recompute": {"policy": "full"}},
    }
    techniques = [{"cephalo": {"by_layer": by_layer}}]
    return simulated(step | {"techniques": techniques} if own else step).step_time_s


def gain(values: Values, *, alike: bool = False, by_layer: bool = False) -> float:
    """Throughput over an even split."""
    without, own = (step_s(values, own=own, alike=alike, by_layer=by_layer) for own in (False, True))
    return without / own


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"even": lambda v: gain(v, by_layer=True), "alike": lambda v: gain(v, alike=True) / gain(v)}
