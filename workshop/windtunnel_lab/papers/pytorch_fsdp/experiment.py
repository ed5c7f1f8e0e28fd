"""FSDP against DDP where both fit, where only one fits, and at scale."""

from __future__ import annotations

from windtunnel_lab.reproduce.claims import Measure, simulated
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "pytorch-fsdp")
fixed = EXPERIMENT.fixed


def scenario(model: str, gpus: int, mbs: int, *, sharded: bool) -> Values:
    """One step of data parallelism, sharded or replicated."""
    seq_len = 2048 if "gpt3" in model else fixed("seq_len")
    return {
        "model": model,
        "cluster": {
            "device": "a100-sxm-80gb",
            "nodes": gpus // 8,
            "devices_per_node": 8,
            "scale_out": {"nics_per_node": 8, "nic_bytes_per_s": fixed("nic_gbit") * 1e9 / 8, "family": "roce"},
        },
        "training": {
            "seq_len": seq_len,
            "global_batch": gpus * mbs,
            "framework": "fsdp1" if sharded else "ddp",
            "grad_reduce_precision": "bf16",
        },
        "plan": {"mbs": mbs, "zero": 3 if sharded else 0}
        | ({"recompute": {"policy": "full"}} if "gpt3" in model else {}),
        "techniques": [{"pytorch-fsdp": {}}] if sharded else [],
    }


def ratio(values: Values) -> float:
    """Throughput with shards over that with replicas, the further from 1."""
    found = []
    for model in fixed("small"):
        ddp, fsdp = (
            simulated(scenario(model, fixed("few_gpus"), values["mbs"], sharded=sharded)).step_time_s
            for sharded in (False, True)
        )
        found.append(ddp / fsdp)
    return max(found, key=lambda x: abs(x - 1.0))


def only_sharded_fits(values: Values) -> float:
    """Whether the large model fits with shards and not with replicas."""
    ddp, fsdp = (
        simulated(scenario(fixed("large"), fixed("few_gpus"), values["mbs"], sharded=sharded)).fits
        for sharded in (False, True)
    )
    return float(fsdp and not ddp)


def scaling(values: Values) -> float:
    """Rate a GPU on the larger cluster over that on the smaller one."""
    few, many = (simulated(scenario("gpt3-175b", n, values["gpt_mbs"], sharded=True)).mfu for n in fixed("scaled_gpus"))
    return many / few


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"ddp/ratio": ratio, "ddp/larger": only_sharded_fits, "scaling": scaling}
