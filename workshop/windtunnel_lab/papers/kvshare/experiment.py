"""Prompts that resemble earlier ones, one at a time and in offline batches, against computing all of them in full."""

from __future__ import annotations

from windtunnel.serving.results.serving_result import ServingResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed


def run_of(model: str, values: Values, traffic: Values, *, share: float) -> ServingResult:
    """One device; `share` of the prompts resemble an earlier one, 0: all are computed in full."""
    knobs = {"share": share, "matched": values["matched"], "recomputed": values["recomputed"]}
    return served(
        {
            "model": model,
            "cluster": {"device": fixed("device"), "nodes": 1, "devices_per_node": 8},
            "techniques": [{"kvshare": knobs}] if share else [],
            "serving": {
                "engine": "vllm",
                "pools": [{"replicas": 1, "kv": {"prefix_caching": bool(share)}}],
                "traffic": {
                    "num_requests": fixed("requests"),
                    "input_tokens": values["input"],
                    "output_tokens": values["output"],
                    "seed": 1,
                    **traffic,
                },
            },
        }
    )


def first_token(values: Values) -> float:
    """Largest ratio over models, of the median at one request at a time, all of which resemble one."""
    alone = {"concurrency": 1, "num_requests": 20}
    return max(
        run_of(m, values, alone, share=0.0).ttft_s.p50 / run_of(m, values, alone, share=1.0).ttft_s.p50
        for m in fixed("models")
    )


def throughput(values: Values) -> float:
    """Mean over models."""
    offline = {"offline": True}
    gains = [
        run_of(m, values, offline, share=values["share"]).total_tokens_per_s
        / run_of(m, values, offline, share=0.0).total_tokens_per_s
        for m in fixed("models")
    ]
    return sum(gains) / len(gains)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {"ttft": first_token, "throughput": throughput}
