"""Step time with planned and with hashed paths, gradients reduced over sixteen nodes."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, ran, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def scenario(values: Values, seed: int) -> Values:
    """One training step on a fabric that hashes flows onto the uplinks."""
    nodes, leaf = fixed("nodes"), values["nodes_per_leaf"]
    return {
        "model": {
            "family": "dense",
            "name": "gpt-22b",
            "hidden_size": 6144,
            "num_hidden_layers": 48,
            "num_attention_heads": 64,
            "intermediate_size": 24576,
            "vocab_size": 51200,
            "gated_mlp": False,
            "hidden_act": "gelu",
            "norm": "layernorm",
            "position_embedding": "learned",
            "max_position_embeddings": fixed("seq_len"),
            "tie_word_embeddings": True,
        },
        "cluster": {
            "device": "h800-sxm-80gb",
            "nodes": nodes,
            "devices_per_node": 8,
            "scale_out": {
                "nics_per_node": 8,
                "nic_bytes_per_s": fixed("port_gbit") * 1e9 / 8,
                "family": "roce",
                "fabric": {
                    "nodes_per_leaf": leaf,
                    "spines": 8 * leaf,
                    "routing": "ecmp",
                    "seed": seed,
                    "flows_per_port": values["flows_per_port"],
                },
            },
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": nodes * values["sequences_per_replica"],
            "framework": "megatron_core",
        },
        "plan": {
            "tp": fixed("tp"),
            "zero": 1,
            "mbs": 1,
            "overlap": {"grad_reduce": fixed("overlap"), "param_gather": fixed("overlap")},
        },
    }


def gain(values: Values) -> float:
    """Per cent of throughput that planned paths add, mean over hashes."""
    total = 0.0
    for seed in range(fixed("seeds")):
        plain = scenario(values, seed)
        total += float(simulated(plain).step_time_s / simulated(plain | {"techniques": ["c4"]}).step_time_s) - 1.0
    return 100.0 * total / float(fixed("seeds"))


def lost(values: Values, *, found: bool) -> float:
    """Share of the wall time of a month-long run that errors take, with and without the detector."""
    own, nodes = fixed("run"), fixed("run")["nodes"]
    step = {
        "model": scenario(values, 0)["model"],
        "cluster": {"device": "h800-sxm-80gb", "nodes": nodes, "devices_per_node": 8},
        "training": {"seq_len": fixed("seq_len"), "global_batch": own["sequences"], "framework": "megatron_core"},
        "plan": {"tp": fixed("tp"), "zero": 1, "mbs": 1},
    }
    cause = {
        "name": "crash or hang",
        "per_1000_node_days": values["crashes_per_month"] / 30 / nodes * 1000,
        "detect_s": fixed("time_out_s"),
        "diagnose_s": values["diagnose_h"] * 3600,
    }
    step_s = simulated(step).step_time_s
    run_section = {
        "steps": own["days_of_steps"] * 86400 / step_s,
        "failures": {"causes": [cause]},
        "checkpoint": fixed("saves"),
        "recovery": {"spares": 8},
        "replications": 20,
    }
    whole = step | {"run": run_section}
    detector = {"techniques": [{"c4": fixed("detector")}]} if found else {}
    result = ran(whole | detector)
    of_errors = ("lost_progress", "detect", "diagnose", "wait_for_nodes", "schedule", "initialise", "load")
    return sum(result.seconds[name] for name in of_errors) / sum(result.seconds.values())


def points_saved(values: Values) -> float:
    """Points of the wall time that detection by collectives saves."""
    return 100.0 * (lost(values, found=False) - lost(values, found=True))


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {"errors": points_saved, "run-time": gain}
