"""A trillion parameters on V100s: sustained rate with state in host memory, and what fits where."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "zero-infinity")
fixed = EXPERIMENT.fixed
PER_NODE = 16
MOST_NODES = 128


def scenario(nodes: int, tp: int, mbs: int, techniques: list[Values]) -> Values:
    """One step of the 1T model on DGX-2 nodes under ZeRO-3 with full recomputation."""
    hidden = fixed("hidden")
    return {
        "model": {
            "name": "GPT of 1T",
            "family": "dense",
            "hidden_size": hidden,
            "num_hidden_layers": fixed("layers"),
            "vocab_size": fixed("vocab_size"),
            "num_attention_heads": fixed("heads"),
            "intermediate_size": 4 * hidden,
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
            "device": "v100-sxm-32gb",
            "nodes": nodes,
            "devices_per_node": PER_NODE,
            "scale_up_domain": PER_NODE,
            "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": "100 Gb/s", "family": "infiniband"},
            "host_memory_bytes": "1.5 TiB",
            "host_memory_bytes_per_s": "192 GB/s",
            "host_cores": 48,
            "devices_per_host_link": 4,
            "storage": {"bytes": "30.72 TB", "read_bytes_per_s": "25.6 GB/s", "write_bytes_per_s": "16 GB/s"},
        },
        "training": {
            "seq_len": fixed("seq_len"),
            "global_batch": nodes * PER_NODE // tp * mbs,
            "precision": "fp16",
            "framework": "megatron_deepspeed",
            "attention": "unfused",
        },
        "plan": {"tp": tp, "zero": 3, "mbs": mbs, "recompute": {"policy": "full"}},
        "techniques": techniques,
    }


def offloaded(values: Values) -> Values:
    """The 1T run on 512 GPUs: weights on the devices, state where Table 1 has it."""
    knobs = {
        "params": "device",
        "gradients": "host",
        "optimizer": values["optimizer_tier"],
        "activations": "host",
    }
    mbs = fixed("sequences_per_gpu") * values["tp"]
    return scenario(fixed("gpus") // PER_NODE, values["tp"], mbs, [{"zero-infinity": knobs}])


def petaflops(values: Values) -> float:
    """What all devices compute, recomputation counted."""
    run = simulated(offloaded(values))
    return run.hfu * 0.125 * float(fixed("gpus"))


def gpus_without(_: Values) -> float:
    """Fewest GPUs in whole nodes on which the model fits without offloading."""
    low, high = 1, MOST_NODES
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if simulated(scenario(middle, PER_NODE, 1, [])).fits else (middle + 1, high)
    return float(low * PER_NODE)


def on_one_node(values: Values) -> float:
    """Whether one node with drives holds the model."""
    knobs = {"params": "nvme", "gradients": "nvme", "optimizer": "nvme", "activations": "host", "prefetch_layers": 2}
    return float(simulated(scenario(1, values["tp"], 1, [{"zero-infinity": knobs}])).fits)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "throughput": petaflops,
        "peak": lambda values: 100 * simulated(offloaded(values)).hfu,
        "fit/without": gpus_without,
        "fit/one-node": on_one_node,
    }
