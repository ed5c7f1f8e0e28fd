"""Iterations of wide expert parallelism with and without two batches and balanced experts."""

from __future__ import annotations

import json
from functools import lru_cache

from windtunnel.serving.deployment import prepare
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__, "sglang-wide-ep")
fixed = EXPERIMENT.fixed
DECODE, PREFILL = "decode", "prefill"


def nodes_of(phase: str, *, balance: bool) -> int:
    """Nodes of one instance; without redundant experts 256 of them do not divide evenly among 72 ranks."""
    nodes = int(fixed("nodes")[phase])
    return nodes if balance or 256 % (8 * nodes) == 0 else nodes - 1


@lru_cache(maxsize=64)
def _iteration(text: str) -> IterationModel:
    return prepare(json.loads(text)).iteration


def iteration(phase: str, values: Values, *, overlap: bool, balance: bool) -> IterationModel:
    """Seconds of iterations of one phase's instance."""
    nodes = nodes_of(phase, balance=balance)
    ranks = 8 * nodes
    techniques: list[str | Values] = []
    if overlap:
        techniques.append("dual-batch-overlap")
    if balance:
        techniques.append({"eplb": {"num_redundant_experts": fixed("redundant")}})
    scenario = {
        "model": fixed("model"),
        "cluster": {"device": "h100-sxm-80gb", "nodes": nodes, "devices_per_node": 8},
        "techniques": techniques,
        "serving": {
            "engine": "sglang",
            "engine_version": "0.4.6",
            "precision": {"weights": "fp8_block"},
            "expert_load": {"popularity": values["popularity"]},
            "pools": [
                {
                    "plan": {"dp": ranks, "ep": ranks},
                    "kv": {"num_blocks": 10_000_000},
                    "limits": {
                        "max_num_seqs": fixed("batch") * ranks,
                        "max_num_batched_tokens": fixed("prompt_tokens") * ranks,
                    },
                }
            ],
            "traffic": {"offline": True, "num_requests": 1, "input_tokens": 1, "output_tokens": 1},
        },
    }
    return _iteration(json.dumps(scenario, sort_keys=True))


def rate(phase: str, values: Values, *, overlap: bool = True, balance: bool = True) -> float:
    """Tokens per second and node."""
    one, nodes = iteration(phase, values, overlap=overlap, balance=balance), float(nodes_of(phase, balance=balance))
    ranks = 8.0 * nodes
    if phase == PREFILL:
        tokens = ranks * float(fixed("prompt_tokens"))
        count = tokens / float(fixed("prompt"))
        pairs = count * 0.5 * float(fixed("prompt")) ** 2
        return tokens / nodes / one.seconds(tokens, pairs=pairs, prompt_tokens=tokens, sequences=count)
    count = ranks * float(fixed("batch"))
    kv = count * (float(fixed("prompt")) + 0.5 * float(values["output"]))
    return count / nodes / one.seconds(count, kv=kv, sequences=count)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "prefill/rate": lambda v: rate(PREFILL, v),
        "decode/rate": lambda v: rate(DECODE, v),
        "prefill/overlap": lambda v: rate(PREFILL, v) / rate(PREFILL, v, overlap=False),
        "decode/overlap": lambda v: rate(DECODE, v) / rate(DECODE, v, overlap=False),
        "prefill/balance": lambda v: rate(PREFILL, v) / rate(PREFILL, v, balance=False),
        "decode/balance": lambda v: rate(DECODE, v) / rate(DECODE, v, balance=False),
    }
