"""A 20B GPT on nodes of Frontier: three levels of sharding against ZeRO++, and how they scale."""

from __future__ import annotations

from typing import Any

from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.figures import beside, curve
from windtunnel_lab.reproduce.settings import Values, central

EXPERIMENT = Experiment(__name__, "frontier-zero-topo")
fixed = EXPERIMENT.fixed
PER_NODE = 8

_GCDS = (16, 32, 64, 128, 256, 384)
"""Numbers of GCDs along the horizontal axis of the figure."""


def rate(gcds: int, levels: str, values: Values) -> float:
    """Share of a GCD's peak under one way to shard."""
    knobs = fixed(levels)
    step = {
        "model": fixed("model"),
        "cluster": {
            "device": "mi250x",
            "nodes": gcds // PER_NODE,
            "devices_per_node": PER_NODE,
            "scale_up": {
                "id": "xgmi",
                "bytes_per_s": values["xgmi_gb_per_s"] * 1e9,
                "latency_s": "1.9 us",
                "topology": "mesh",
                "family": "xgmi3",
            },
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": gcds * values["mbs"] * values["micro_batches"],
            "framework": "deepspeed",
        },
        "plan": {"mbs": values["mbs"], "zero": 3, "recompute": {"policy": "full"}},
        "techniques": [{"frontier-zero-topo": knobs}],
    }
    return simulated(step).mfu


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    gcds = fixed("gcds")
    return {
        "speedup": lambda values: rate(gcds, "topo", values) / rate(gcds, "zeropp", values),
        "scaling": lambda values: rate(gcds, "topo", values) / rate(values["first_gcds"], "topo", values),
    }


def plot(results: list[ClaimResult]) -> Any:
    """Gain of three levels over GCDs, and their own rate over that on the smallest run."""
    values, most = central(EXPERIMENT.setting), fixed("gcds")
    first = rate(values["first_gcds"], "topo", values)
    gain, kept = ({float(most): c.published} for c in results)
    series = {
        "over ZeRO++": curve(_GCDS, lambda n: rate(n, "topo", values) / rate(n, "zeropp", values), gain),
        "over the smallest run": curve(_GCDS, lambda n: rate(n, "topo", values) / first, kept),
    }
    return beside({"20B": series}, "GCDs", "rate of a GCD with three levels", log_x=True)
