"""Speed-up of cutting tensor-parallel collectives and their GEMMs, against measured pairs of runs."""

from __future__ import annotations

from typing import Any

from windtunnel.training.predict import simulate_training
from windtunnel_lab.reproduce import ClaimResult
from windtunnel_lab.reproduce.experiment import Experiment

EXPERIMENT = Experiment(__name__)
STAND_IN = "measured pairs of public implementations stand in for the paper's own figures, which could not be looked up"


def knobs(**changed: str) -> dict[str, Any]:
    """Central knobs; `changed` names settings that are taken at another end."""
    values = {name: item[changed.get(name, "central")] for name, item in EXPERIMENT.setting["open"].items()}
    return {"comm_sms": values["async_tp_sms"], "bulk": values["bulk"], "method": values["method"]}


def speed_up(scenario: dict[str, Any], given: dict[str, Any]) -> float:
    """Step time without over step time with overlap."""
    plain = simulate_training(scenario, sensitivities=False).step_time_s
    return (
        plain / simulate_training(scenario | {"techniques": [{"tp-overlap": given}]}, sensitivities=False).step_time_s
    )


def torchtitan_case(case: dict[str, Any]) -> dict[str, Any]:
    """A scenario without overlap."""
    shared = EXPERIMENT.setting["torchtitan"]
    return {
        "model": case["model"],
        "cluster": {"device": shared["device"]["value"], "nodes": case["nodes"], "devices_per_node": 8},
        "training": {
            "seq_len": shared["seq_len"]["value"],
            "global_batch": case["global_batch"],
            "precision": case["precision"],
            "framework": "torchtitan",
        },
        "plan": {"tp": 8, "zero": 3, "mbs": case["mbs"], "recompute": case["recompute"], "overlap": {"tp": False}},
    }


def small_gain_case() -> dict[str, Any]:
    """Eight H20: a fifth of an H100's matrix throughput behind the same links."""
    case = EXPERIMENT.setting["small_gain"]
    return {
        "model": case["model"],
        "cluster": {"device": case["device"], "nodes": 1, "devices_per_node": 8},
        "training": {
            "seq_len": case["seq_len"],
            "global_batch": case["global_batch"],
            "framework": "megatron_core",
            "phase": "sft",
        },
        "plan": {"tp": 8, "mbs": case["mbs"]["value"], "overlap": {"tp": False}},
    }


def run() -> list[ClaimResult]:
    """Four measured speed-ups and one upper limit."""
    tolerance = float(EXPERIMENT.setting["torchtitan"]["tolerance"]["value"])
    ends = [{name: end} for name in EXPERIMENT.setting["open"] for end in ("low", "high")]
    results = []
    for case in [*EXPERIMENT.setting["cases"], EXPERIMENT.setting["small_gain"]]:
        limit = "id" not in case
        scenario = small_gain_case() if limit else torchtitan_case(case)
        published = case["published"][0] / case["published"][1]
        value = speed_up(scenario, knobs())
        swept = [value, *(speed_up(scenario, knobs(**end)) for end in ends)]
        within = 1.0 <= value <= published if limit else abs(value - published) <= tolerance
        results.append(
            ClaimResult(
                id="tp-overlap/megatron-h20" if limit else f"tp-overlap/{case['id']}",
                claim=case["claim"],
                published=published,
                simulated=value,
                low=min(swept),
                high=max(swept),
                within=within,
                assumptions=(STAND_IN,),
            )
        )
    return results
