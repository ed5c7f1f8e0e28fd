"""What a configurator loses that knows nominal link rates alone, and one that does not count memory."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from windtunnel_lab.reproduce.claims import Measure, planned, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
PER_NODE = 8
AMPLE_BYTES = 2.0**50
"""Device memory of a configurator that does not count it."""


def scale_out(name: str, share: float) -> Values:
    """One port a node at a share of its nominal rate."""
    rate = EXPERIMENT.setting["clusters"][name]["nominal_gb_per_s"] * 1e9 * share
    return {"nics_per_node": 1, "nic_bytes_per_s": rate, "latency_s": "4 us"}


def scenario(name: str, values: Values, share: float, **plan: Any) -> Values:
    """One training step on 64 devices whose nodes attain a share of the nominal rate."""
    case = EXPERIMENT.setting["clusters"][name]
    return {
        "model": {
            "name": f"GPT on {name}",
            "family": "dense",
            "hidden_size": case["hidden"],
            "num_hidden_layers": case["layers"],
            "num_attention_heads": case["heads"],
            "intermediate_size": 4 * case["hidden"],
            "vocab_size": fixed("vocab_size"),
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "position_embedding": "learned",
            "max_position_embeddings": fixed("seq_len"),
        },
        "cluster": {
            "device": case["device"],
            "nodes": fixed("gpus") // PER_NODE,
            "devices_per_node": PER_NODE,
            "scale_out": scale_out(name, share),
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": fixed("batch"),
            "precision": values["precision"],
            "framework": fixed("framework"),
        },
        "plan": {"zero": 0, "recompute": {"policy": values["recompute"]}} | plan,
    }


def choice(step: Values) -> Values:
    """The planner's plan for a step."""
    space = {axis: tuple(listed) for axis, listed in EXPERIMENT.setting["space"].items()} | {"vpp": (1,), "cp": (1,)}
    chosen: Values = planned(step | {"search": {"space": space}})["plan"]
    return chosen


def nominal_against_attained(values: Values, name: str) -> float:
    """On the attained rate, time of the plan chosen for the nominal rate over that chosen for the attained one."""
    real = scenario(name, values, values["attained"])
    by_label, by_rate = choice(scenario(name, values, 1.0)), choice(real)
    return simulated(real | {"plan": by_label}).step_time_s / simulated(real | {"plan": by_rate}).step_time_s


def manual_against_planned(values: Values, name: str) -> float:
    """Time of the script's plan over the planner's on the attained rate."""
    real = scenario(name, values, values["attained"])
    manual = simulated(scenario(name, values, values["attained"], **fixed("manual")))
    return manual.step_time_s / simulated(real | {"plan": choice(real)}).step_time_s


def blind_memory(values: Values, name: str) -> float:
    """Reserved memory of the plan chosen with ample memory over what the device has."""
    real = scenario(name, values, values["attained"])
    ample = real | {"cluster": real["cluster"] | {"memory_bytes": AMPLE_BYTES}}
    run = simulated(ample | {"plan": choice(ample)})
    return run.reserved_bytes / memory_bytes(name)


def memory_bytes(name: str) -> float:
    """What one device has."""
    return {"a100": 80.0, "v100": 32.0}[name] * 2**30


def of_ten_fastest(values: Values, name: str) -> float:
    """Plans among the ten fastest of the space that do not fit."""
    space, found = EXPERIMENT.setting["space"], []
    for tp, pp, mbs in product(space["tp"], space["pp"], space["mbs"]):
        dp = fixed("gpus") // (tp * pp)
        if not dp or fixed("batch") % (dp * mbs):
            continue
        step = scenario(name, values, values["attained"], tp=tp, pp=pp, mbs=mbs)
        run = simulated(step | {"cluster": step["cluster"] | {"memory_bytes": AMPLE_BYTES}})
        found.append((run.step_time_s, run.reserved_bytes > memory_bytes(name)))
    return float(sum(over for _, over in sorted(found)[:10]))


def halves(values: Values, order: tuple[str, ...]) -> float:
    """Seconds of the manual plan where one half of the nodes attains more than the other, the mean kept."""
    step = scenario("a100", values, values["attained"], order=list(order), **fixed("manual"))
    slow = 2 * values["attained"] / (1 + values["spread"])
    groups = [
        step["cluster"] | {"nodes": step["cluster"]["nodes"] // 2, "scale_out": scale_out("a100", share)}
        for share in (slow * values["spread"], slow)
    ]
    return simulated(step | {"cluster": {"groups": groups}}).step_time_s


STAGES_APART = ("tp", "cp", "ep", "dp", "pp")
REPLICAS_APART = ("tp", "cp", "ep", "pp", "dp")


def straggler(values: Values) -> float:
    """Time on unlike halves over that on their mean rate."""
    even = scenario("a100", values, values["attained"], order=list(STAGES_APART), **fixed("manual"))
    return halves(values, STAGES_APART) / simulated(even).step_time_s


def assignment(values: Values) -> float:
    """Slower over faster assignment."""
    times = [halves(values, order) for order in (STAGES_APART, REPLICAS_APART)]
    return max(times) / min(times)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    out: dict[str, Measure] = {}
    for prefix, measure in (
        ("attained/", nominal_against_attained),
        ("manual/", manual_against_planned),
        ("memory/blind-", blind_memory),
        ("memory/top-ten-", of_ten_fastest),
    ):
        out |= {f"{prefix}{name}": partial(measure, name=name) for name in EXPERIMENT.setting["clusters"]}
    return out | {"uneven/straggler": straggler, "uneven/assignment": assignment}
