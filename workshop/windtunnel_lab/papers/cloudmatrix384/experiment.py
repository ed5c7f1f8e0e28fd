"""Steps of wide expert parallelism on one supernode; one point sets one factor, the others are predicted."""

from __future__ import annotations

import json
from functools import lru_cache

from windtunnel import catalog
from windtunnel.serving.deployment import Deployment, prepare
from windtunnel_lab.reproduce.claims import Measure
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
DECODE, PREFILL = "decode", "prefill"


def cluster(npus: int, factor: float) -> Values:
    """NPUs of one supernode with all rates scaled."""
    known = catalog.resolve_cluster("cloudmatrix-node")
    device = known.device.model_dump(mode="json", exclude_none=True)
    device["id"] = f"ascend-910c-{factor:.6f}"
    device["peak_flop_per_s"] = {k: v * factor for k, v in known.device.peak_flop_per_s.items()}
    device["memory_bytes_per_s"] = known.device.memory_bytes_per_s * factor
    up = known.scale_up.model_dump(mode="json") | {"bytes_per_s": known.scale_up.bytes_per_s * factor}
    return {
        "device": device,
        "nodes": npus // 8,
        "devices_per_node": 8,
        "scale_up": up,
        "scale_up_domain": 384,
        "scale_out": known.scale_out.model_dump(mode="json"),
    }


@lru_cache(maxsize=128)
def _deployed(text: str) -> Deployment:
    return prepare(json.loads(text))


def deployed(phase: str, values: Values, factor: float) -> Deployment:
    """The instance of one phase."""
    npus = fixed(f"{phase}_npus")
    tokens = npus * fixed("prompt_tokens")
    serving: Values = {
        "engine": "generic",
        "precision": {"weights": "int8"},
        "expert_load": {
            "popularity": values["popularity"],
            "eplb": True,
            "num_redundant_experts": fixed("redundant")[phase],
        },
        "pools": [
            {
                "plan": {"dp": npus, "ep": npus, "balance_prompts": phase == PREFILL},
                "kv": {"num_blocks": 10_000_000},
                "limits": {"max_num_seqs": 128 * npus, "max_num_batched_tokens": tokens},
            }
        ],
        "traffic": {"offline": True, "num_requests": 1, "input_tokens": 1, "output_tokens": 1},
    }
    if phase == DECODE:
        serving["speculation"] = {"method": "mtp", "tokens": 1, "acceptance": values["acceptance"]}
    scenario = {
        "model": fixed("model"),
        "cluster": cluster(npus, factor),
        "serving": serving,
        "techniques": [{"dual-batch-overlap": {"comm_sms": 0, "threshold": 2}}],
    }
    return _deployed(json.dumps(scenario, sort_keys=True))


def step_s(values: Values, batch: int, factor: float) -> float:
    """Seconds of one decode step with so many requests an NPU."""
    count = batch * fixed("decode_npus")
    kv = count * (fixed("prompt") + 0.5 * values["output"])
    one = deployed(DECODE, values, factor).iteration
    return float(one.seconds(2 * count, kv=kv, sequences=count, decoding=count))


def decode_rate(values: Values, batch: int, factor: float) -> float:
    """Output tokens per second and NPU."""
    return float(batch * (1.0 + values["acceptance"]) / step_s(values, batch, factor))


@lru_cache(maxsize=32)
def _factor(text: str) -> float:
    values = json.loads(text)
    low, high = 0.05, 8.0
    for _ in range(14):
        middle = (low * high) ** 0.5
        enough = decode_rate(values, fixed("batches")["loose"], middle) >= fixed("published")
        low, high = (low, middle) if enough else (middle, high)
    return float((low * high) ** 0.5)


def factor(values: Values) -> float:
    """What data-sheet rates are multiplied by, from the point with many requests."""
    return _factor(json.dumps(values, sort_keys=True))


def prefill_rate(values: Values) -> float:
    """Prompt tokens per second and NPU of one iteration over whole prompts."""
    npus, prompt = fixed("prefill_npus"), fixed("prompt")
    tokens = npus * fixed("prompt_tokens")
    count = tokens // prompt
    one = deployed(PREFILL, values, factor(values)).iteration
    seconds = one.seconds(tokens, pairs=count * 0.5 * prompt**2, prompt_tokens=tokens, sequences=count)
    return float(tokens / npus / seconds)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "decode/tight": lambda v: decode_rate(v, fixed("batches")["tight"], factor(v)),
        "prefill": prefill_rate,
        "factor": factor,
    }
