"""An instance of experts that grows under a burst: in place, or stopped and started anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

if TYPE_CHECKING:
    from windtunnel.serving.results.serving_result import ServingResult

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
CALM_S, BURST_S = 120.0, 240.0


def deployment(plan: Values, traffic: Values, autoscale: Values | None = None) -> Values:
    """One instance on one node."""
    return {
        "model": fixed("model"),
        "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 8},
        "serving": {
            "engine": "vllm",
            "slo": {"ttft_s": 5.0, "tpot_s": 0.2},
            "pools": [{"plan": plan, "limits": {"max_num_seqs": fixed("max_num_seqs")}}],
            **({"autoscale": autoscale} if autoscale else {}),
            "traffic": {"input_tokens": fixed("input"), "output_tokens": fixed("output")} | traffic,
        },
    }


def capacity_per_s() -> float:
    """Requests a second that the smaller size serves with a full batch."""
    return served(deployment(fixed("plans")[0], {"offline": True, "num_requests": 600})).throughput_requests_per_s


def burst(method: str, values: Values) -> ServingResult:
    """Calm, then more than the smaller size serves; the larger size is wanted once a line forms."""
    most = capacity_per_s()
    calm, much = fixed("before") * most, values["burst"] * most
    tenants = [
        {"name": "calm", "rate_per_s": calm, "end_s": CALM_S + BURST_S},
        {"name": "burst", "rate_per_s": much - calm, "start_s": CALM_S, "end_s": CALM_S + BURST_S},
    ]
    scale: Values = {
        "method": method,
        "plans": fixed("plans"),
        "signal": "waiting",
        "target": 8,
        "interval_s": 2,
        "cooldown_s": 10_000,
    }
    if method == "in_place":
        scale["reconfigure_s"] = values["reconfigure_s"]
    else:
        scale |= {"engine_start_s": values["engine_start_s"]}
        scale |= {"storage_bytes_per_s": values["storage_gb_per_s"] * 1e9}
    return served(deployment(fixed("plans")[0], {"tenants": tenants}, scale))


def latency(values: Values) -> float:
    """Seconds from the decision to the larger size, restart over in place."""
    anew, own = (burst(method, values).scaling["growths"][0][1] for method in ("restart", "in_place"))
    return float(anew / own)


def throughput(values: Values) -> float:
    """Answers that end in the window after the decision, in place over restart."""

    def ended(method: str) -> int:
        result = burst(method, values)
        begin = result.scaling["growths"][0][0]
        end = result.table["arrival_s"] + result.table["e2e_s"]
        return int(((end > begin) & (end <= begin + fixed("window_s"))).sum())

    return ended("in_place") / max(ended("restart"), 1)


def idle_s(values: Values) -> float:
    """Seconds without a device that serves."""
    changes = np.array(burst("in_place", values).scaling["changes"])
    return float((np.diff(changes[:, 0]) * (changes[:-1, 1] == 0)).sum())


def attainment(values: Values) -> float:
    """Share of requests within their objective, in place over restart."""
    own, anew = (burst(method, values).slo_attainment for method in ("in_place", "restart"))
    return own / max(anew, 1e-9)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"latency": latency, "throughput": throughput, "never-stops": idle_s, "attainment": attainment}
