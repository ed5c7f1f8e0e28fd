"""One request on an M2 Ultra: drafts next to the model's last layers, drafts in line, EAGLE, and none."""

from __future__ import annotations

from typing import Any

from windtunnel.serving.results.serving_result import ServingResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "mirror-sd")
fixed = EXPERIMENT.fixed
PLAIN, SERIAL, EAGLE, MIRROR = "plain", "serial", "eagle", "mirror"


def run_of(model: str, way: str, values: Values) -> ServingResult:
    """One request after the other."""
    draft = {
        "method": "draft",
        "draft": fixed("pairs")[model],
        "tokens": fixed("tokens"),
        "acceptance": values["acceptance"],
    }
    serving: Values = {
        "engine": "generic",
        "pools": [{"plan": {"tp": 1}, "limits": {"max_num_seqs": 1, "max_model_len": 2048}}],
        "traffic": {
            "concurrency": 1,
            "num_requests": 2,
            "input_tokens": fixed("input"),
            "output_tokens": fixed("output"),
        },
    }
    techniques: list[Any] = []
    if way == EAGLE:
        chain = {"method": "eagle", "tokens": fixed("tokens"), "acceptance": values["eagle_acceptance"]}
        serving["speculation"] = chain
    elif way != PLAIN:
        serving["speculation"] = draft
    if way == MIRROR:
        techniques.append({"mirror-sd": {"reuse": values["reuse"], "early_exit": values["early_exit"]}})
    cluster = {"device": fixed("device"), "nodes": 1, "devices_per_node": 1}
    return served({"model": model, "cluster": cluster, "techniques": techniques, "serving": serving})


def speed_ups(over: str, values: Values) -> list[float]:
    """Wall time of an answer the other way over the mirrored one's, by pair."""
    pairs = fixed("pairs")
    return [run_of(m, over, values).e2e_s.mean / run_of(m, MIRROR, values).e2e_s.mean for m in pairs]


def draft_share(values: Values) -> float:
    """Share of a step that drafts, mirrored over serial."""
    shares = [run_of("Qwen/Qwen3-32B", way, values).speculation["draft_share_of_decode"] for way in (MIRROR, SERIAL)]
    return float(shares[0] / shares[1])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "slowest-pair": lambda v: min(speed_ups(PLAIN, v)),
        "fastest-pair": lambda v: max(speed_ups(PLAIN, v)),
        "eagle": lambda v: 100.0 * (sum(speed_ups(EAGLE, v)) / len(fixed("pairs")) - 1.0),
        "drafts": draft_share,
    }
