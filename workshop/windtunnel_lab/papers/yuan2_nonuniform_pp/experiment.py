"""Unequal stages with a sharded optimizer against tensor parallelism, over fast and slow links inside nodes."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, Simulated, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "yuan2-nonuniform-pp")
fixed = EXPERIMENT.fixed
GIB_80 = 80 * 2**30


def step(values: Values, *, tensor: bool, slow: bool, uneven: bool = True) -> Simulated:
    """One step with tensor parallelism, or without as the technique has it."""
    per_node = fixed("devices_per_node")
    cluster: Values = {"device": fixed("device"), "nodes": fixed("nodes"), "devices_per_node": per_node}
    if slow:
        rate = fixed("slow_gb_per_s") * 1e9
        cluster["scale_up"] = {"id": "pcie", "family": "generic", "bytes_per_s": rate, "latency_s": 5e-6}
    stages = values["stages"] // fixed("tp") * (1 if tensor else fixed("tp"))
    scenario: Values = {
        "model": {
            "name": "Yuan 2.0 102B",
            "family": "dense",
            "hidden_size": fixed("hidden"),
            "num_hidden_layers": fixed("layers"),
            "num_attention_heads": fixed("heads"),
            "intermediate_size": fixed("ffn"),
            "vocab_size": fixed("vocab_size"),
        },
        "cluster": cluster,
        "training": {"seq_len": fixed("seq_len"), "global_batch": values["batch"], "framework": fixed("framework")},
        "plan": {
            "tp": fixed("tp") if tensor else 1,
            "pp": max(stages, 2),
            "mbs": 1,
            "recompute": {"policy": "full"},
            "overlap": {"tp": False},
        },
    }
    if not tensor:
        scenario["techniques"] = [{"yuan2-nonuniform-pp": {"uneven": uneven}}]
    return simulated(scenario)


def gain(values: Values, *, slow: bool) -> float:
    """Throughput over that of the tensor-parallel plan."""
    return step(values, tensor=True, slow=slow).step_time_s / step(values, tensor=False, slow=slow).step_time_s


def unequal(values: Values) -> float:
    """Unequal stages over an even split."""
    even, own = (step(values, tensor=False, slow=True, uneven=uneven) for uneven in (False, True))
    return even.step_time_s / own.step_time_s


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "fits": lambda v: step(v, tensor=False, slow=True).reserved_bytes / GIB_80,
        "slow-links": lambda v: gain(v, slow=True),
        "bandwidth": lambda v: gain(v, slow=True) / gain(v, slow=False),
        "unequal": unequal,
    }
