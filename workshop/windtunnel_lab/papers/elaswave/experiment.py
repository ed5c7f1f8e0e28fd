"""Throughput with a node missing: replicas dropped, micro-batches rerouted, layers rebalanced."""

from __future__ import annotations

from functools import lru_cache

from windtunnel.runs.degraded_steps import nodes_per_replica
from windtunnel.runs.simulate import prepared_run
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


@lru_cache(maxsize=64)
def slower(model: str, policy: str, sequences: int, clock_up: float) -> float:
    """Factor on step time with one node lost."""
    plan = {**fixed("models")[model], "mbs": 1, "zero": 1}
    recovery: Values = {"policy": policy, "least_replicas": 0.3}
    if policy == "rebalance":
        recovery["clock_up"] = clock_up
    x = prepared_run(
        {
            "model": model,
            "cluster": fixed("cluster"),
            "training": {"seq_len": fixed("seq_len"), "global_batch": sequences, "framework": "megatron_core"},
            "plan": plan,
            "run": {"steps": 1000, "failures": "none", "recovery": recovery},
        }
    )
    member = x.prepared.members[0]
    unit = nodes_per_replica(member.plan, member.cluster) if policy == "shrink" else 1
    return float(x.program.job.slow_by_missing[-(-fixed("lost_nodes") // unit)])


def gains(against: str, values: Values) -> list[float]:
    """Throughput of rebalancing over that of another policy, by model."""
    batch, clock = values["sequences"], values["clock_up"]
    return [
        slower(model, against, batch, clock) / slower(model, "rebalance", batch, clock) for model in fixed("models")
    ]


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "torchft": lambda v: max(gains("shrink", v)),
        "recycle": lambda v: max(gains("reroute", v)),
        "order": lambda v: min(*gains("shrink", v), *gains("reroute", v)),
    }
