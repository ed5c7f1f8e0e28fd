"""Which count of tokens orders programs with tools as their simulated latencies do."""

from __future__ import annotations

from itertools import product
from typing import Any

from windtunnel.reproduce import ClaimResult
from windtunnel.reproduce.claims import Measure, results
from windtunnel.reproduce.programs import on_one_node, reasoned
from windtunnel.reproduce.settings import Values, load

TITLE = "Prefill token equivalents (2026)"


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.pte_tool_reasoning")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def scenario(values: Values) -> Values:
    """One strategy for each pattern of tools."""
    strategies = []
    for steps, result, answer in product(fixed("steps"), fixed("results"), fixed("answers")):
        nodes: list[Values] = [{"id": "c0", "output_tokens": answer}]
        for k in range(steps):
            nodes.append({"id": f"t{k}", "kind": "tool", "tool": "python", "after": [f"c{k}"], "result_tokens": result})
            nodes.append({"id": f"c{k + 1}", "after": [f"t{k}"], "output_tokens": answer})
        strategies.append({"graph": {"nodes": nodes}})
    own = on_one_node(
        {name: fixed(name) for name in ("model", "device", "devices")},
        problems=fixed("problems"),
        concurrency=fixed("concurrency"),
        input_tokens=300,
        strategies=strategies,
        tools={"python": {"seconds": values["tool_s"], "distribution": "fixed"}},
    )
    own["serving"]["pools"][0]["kv"] = {"num_blocks": values["blocks"]}
    return own


def correlations(values: Values) -> tuple[float, float]:
    """Of latencies, less their tools, with prefill token equivalents and with tokens."""
    from scipy.stats import spearmanr

    patterns = list(product(fixed("steps"), fixed("results"), fixed("answers")))
    points = reasoned(scenario(values))
    seconds = [p.latency_s["mean"] - s * values["tool_s"] for p, (s, _, _) in zip(points, patterns, strict=True)]
    tokens = [p.tokens + p.prompt_tokens / p.calls for p in points]
    weight = fixed("flop_per_byte") * fixed("cached_token_bytes") / (2 * fixed("parameters"))
    equivalents = [
        p.prompt_tokens - p.cached_tokens + p.tokens * (1 + weight * p.prompt_tokens / p.calls) for p in points
    ]
    return float(spearmanr(seconds, equivalents)[0]), float(spearmanr(seconds, tokens)[0])


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""

    def gain(values: Values) -> float:
        pte, tokens = correlations(values)
        return pte - tokens

    return {"pte_above_tokens": gain, "pte": lambda v: correlations(v)[0]}


def run() -> list[ClaimResult]:
    """Both correlations."""
    return results(setting(), "pte_tool_reasoning", measures())
