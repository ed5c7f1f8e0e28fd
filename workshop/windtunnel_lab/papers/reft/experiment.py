"""Snapshots in host memory with parity against files on shared storage."""

from __future__ import annotations

from windtunnel.runs.results import RunResult
from windtunnel_lab.reproduce.claims import Measure, ran
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def cluster(name: str) -> Values:
    """A cluster of the setting."""
    given = dict(fixed(name))
    ports, gbit = given.pop("nics_per_node"), given.pop("nic_gbit")
    network = {"nics_per_node": ports, "nic_bytes_per_s": gbit * 1e9 / 8, "family": "generic"}
    return {**given, "scale_out": network}


def small(values: Values, *, in_memory: bool) -> RunResult:
    """The small cluster; a save to the file server by all ranks, or snapshots with parity."""
    server = values["file_server_gb_per_s"] * 1e9
    scenario = {
        "model": fixed("small_model"),
        "cluster": cluster("small"),
        "training": {"seq_len": 2048, "global_batch": 96, "framework": "megatron_core"},
        "plan": {"tp": 1, "zero": 1, "mbs": 1},
        "run": {
            "steps": 1000,
            "failures": "none",
            "replications": 1,
            "checkpoint": {
                "interval_steps": 200,
                "tiers": [{"to": "storage", "mode": "async"}],
                "storage_write_bytes_per_s": server,
                "storage_read_bytes_per_s": server,
            },
        },
    }
    return ran(scenario | ({"techniques": [{"reft": {"group": fixed("group")}}]} if in_memory else {}))


def tier(run: RunResult, to: str) -> Values:
    """What a run says of one tier."""
    found: Values = next(one for one in run.checkpoint["tiers"] if one["to"] == to)
    return found


def faster_save(values: Values) -> float:
    """Seconds from the start of a save until it is safe, storage over memory."""
    plain, own = tier(small(values, in_memory=False), "storage"), tier(small(values, in_memory=True), "erasure")
    # a lazy copy is hidden, not faster: it takes as long as the copy to host memory, which `lag_s` then holds
    return float((plain["block_s"] + plain["lag_s"]) / (own["block_s"] + own["lag_s"]))


def faster_load(values: Values) -> float:
    """Seconds of loading after the loss of a node, storage over memory."""
    plain, own = tier(small(values, in_memory=False), "storage"), tier(small(values, in_memory=True), "erasure")
    return float(plain["load_s"] / own["load_s"])


def overhead(values: Values) -> float:
    """Share of a step that a snapshot each step costs on the large machine."""
    found = ran(
        {
            "model": fixed("frontier_model"),
            "cluster": cluster("frontier"),
            "training": {"seq_len": 2048, "global_batch": values["sequences"], "framework": "megatron_core"},
            "plan": fixed("frontier_plan"),
            "run": {
                "steps": 1000,
                "failures": "none",
                "replications": 1,
                "checkpoint": {"interval_steps": fixed("saves_every_steps")},
            },
            "techniques": [{"reft": {"storage_every": 200}}],
        }
    )
    lost = sum(one["block_s"] + one["slowed_s"] for one in found.checkpoint["tiers"] if one["to"] != "storage")
    return float(lost / found.step_time_s)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {"save": faster_save, "overhead": overhead, "load": faster_load}
