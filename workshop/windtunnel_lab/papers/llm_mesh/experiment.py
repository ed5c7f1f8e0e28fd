"""How many deployments four GPUs serve: one a GPU, sharing, and sharing with the CPUs too."""

from __future__ import annotations

from functools import lru_cache

from windtunnel import api
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "llm-mesh")
fixed = EXPERIMENT.fixed
EXCLUSIVE, SHARED, WITH_CPUS = "one GPU a model", "shared", "shared, with CPUs"
STEP, MOST = 4, 256


def scenario(system: str, models: int, values: Values) -> Values:
    """So many deployments, each with weights of its own."""
    gpus: Values = {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": fixed("gpus")}
    pools: list[Values] = [{"replicas": fixed("gpus")}]
    cluster = gpus
    if system == WITH_CPUS:
        cpus = {
            "device": EXPERIMENT.setting["device"],
            "nodes": 1,
            "devices_per_node": fixed("cpus"),
            "scale_up": "upi",
        }
        cluster = {"groups": [gpus, cpus]}
        pools = [{"replicas": fixed("gpus"), "group": 0}, {"replicas": fixed("cpus"), "group": 1}]
    return {
        "model": fixed("model"),
        "cluster": cluster,
        "serving": {
            "engine": "vllm",
            "pools": pools,
            "slo": {"ttft_s": fixed("ttft_s"), "tpot_s": fixed("tpot_s")},
            "mesh": {
                "sharing": "exclusive" if system == EXCLUSIVE else "shared",
                "keep_alive_s": fixed("keep_alive_s"),
                "load_bytes_per_s": fixed("host_to_gpu_gb_per_s") * 1e9,
                "start_s": values["start_s"],
            },
            "traffic": {
                "duration_s": fixed("duration_s"),
                "rate_per_s": models * values["rate_per_model"],
                "process": "gamma",
                "burstiness": values["burstiness"],
                "input_tokens": fixed("input"),
                "output_tokens": fixed("output"),
                "tenants": [{"name": f"m{i}", "share": (i + 1.0) ** -values["zipf"]} for i in range(models)],
            },
        },
    }


@lru_cache(maxsize=32)
def _capacity(system: str, values: tuple[tuple[str, float], ...]) -> int:
    """By doubling, then by halving; whole steps."""

    def holds(steps: int) -> bool:
        found = api.simulate_serving(scenario(system, steps * STEP, dict(values)))
        return bool(found.slo_attainment >= fixed("attainment"))

    low, high = 0, 2
    while high * STEP <= MOST and holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low * STEP


def capacity(system: str, values: Values) -> float:
    """The most deployments of which enough requests meet both objectives."""
    return float(_capacity(system, tuple(sorted(values.items()))))


def gain(values: Values, system: str, base: str) -> float:
    """Capacity of a system over another's."""
    return capacity(system, values) / max(capacity(base, values), 1.0)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "sharing": lambda v: gain(v, SHARED, EXCLUSIVE) - 1.0,
        "with-cpus": lambda v: gain(v, WITH_CPUS, EXCLUSIVE) - 1.0,
        "order": lambda v: gain(v, WITH_CPUS, SHARED),
    }
