"""FSDP of GPT-2 on two nodes: whole gradients, and sketches of the widest layers' largest ones."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
RANKS = 2


def scenario(values: Values, gbit: float) -> Values:
    """One step of FSDP."""
    return {
        "model": "openai-community/gpt2",
        "cluster": {
            "device": values["device"],
            "nodes": RANKS,
            "devices_per_node": 1,
            "scale_out": {"nics_per_node": 1, "nic_bytes_per_s": gbit * 1e9 / 8},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": fixed("accumulated") * fixed("sequences"),
            "precision": "fp32" if values["device"].startswith("v100") else "tf32",
            "framework": "fsdp1",
            "grad_reduce_precision": "fp32",
        },
        "plan": {"zero": 3, "mbs": fixed("sequences"), "overlap": {"one_communicator": fixed("one_communicator")}},
    }


def gain(values: Values) -> float:
    """Largest gain over the networks in per cent."""
    knobs = {
        "density": fixed("kept"),
        "cells": fixed("cells"),
        "position_bits": fixed("position_bits"),
        "share": fixed("share"),
    }
    found = []
    for gbit in fixed("nic_gbit"):
        step = scenario(values, gbit)
        sketched = simulated(step | {"techniques": [{"tagc": knobs}]}).step_time_s
        found.append(100.0 * (simulated(step).step_time_s / sketched - 1.0))
    return max(found)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"speed-up": gain}


def plot(results: list[ClaimResult]) -> Any:
    """Gain over the network's rate."""
    values = central(EXPERIMENT.setting)
    knobs = {"density": fixed("kept"), "cells": fixed("cells"), "position_bits": fixed("position_bits")}

    def more(gbit: float) -> float:
        step = scenario(values, gbit)
        sketched = simulated(step | {"techniques": [{"tagc": knobs | {"share": fixed("share")}}]}).step_time_s
        return 100.0 * (simulated(step).step_time_s / sketched - 1.0)

    level = {f"published: up to {results[0].published:g}": results[0].published}
    line = {"TAGC": curve(fixed("nic_gbit"), more)}
    return beside({"GPT-2 on two nodes": line}, "Gb/s", "gain over FSDP, %", log_x=True, levels=level)
