"""Going on with fewer nodes under another plan against waiting for repairs; seconds of conversion."""

from __future__ import annotations

from windtunnel.runs.fewer_nodes import convert_s
from windtunnel.specs.run import RunSpec
from windtunnel_lab.reproduce.claims import Measure, ran
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "universal-checkpointing")
fixed = EXPERIMENT.fixed


def days(repair_s: float, processes: int | None) -> float:
    """Mean days of the run; None processes: it waits for repairs."""
    own = fixed("run")
    scenario = {
        "model": own["model"],
        "cluster": {"device": own["device"], "nodes": own["nodes"], "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 128},
        "plan": {"tp": own["tp"], "pp": own["pp"], "mbs": 1, "zero": 1},
        "run": {
            "steps": own["steps"],
            "failures": {"causes": [{"name": "node failure", "per_1000_node_days": own["per_1000_node_days"]}]},
            "replications": 20,
            "recovery": {"auto_repair_s": repair_s, "manual_share": 0},
        },
    }
    added = {} if processes is None else {"techniques": [{"universal-checkpointing": {"processes": processes}}]}
    return float(ran(scenario | added).days["mean"])


def waiting_over_going_on(repair: str, processes: int) -> float:
    """Above 1: going on is faster."""
    return days(fixed(repair), None) / days(fixed(repair), processes)


def conversion_min(values: Values) -> float:
    """Minutes for the checkpoint of the 176B model."""
    recovery = {"policy": "reshape", "convert_processes": values["processes"]}
    return convert_s(RunSpec.model_validate({"steps": 1, "recovery": recovery}), fixed("bloom_bytes")) / 60.0


def measures() -> dict[str, Measure]:
    """Claim → how it is measured."""
    return {
        "long-repair": lambda v: waiting_over_going_on("long_repair_s", v["processes"]),
        "short-repair": lambda v: waiting_over_going_on("short_repair_s", v["processes"]),
        "conversion": conversion_min,
    }
