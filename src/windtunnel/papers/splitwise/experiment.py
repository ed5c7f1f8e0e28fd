"""Clusters of split and of whole machines at equal power, as the authors' sweeps compare them."""

from __future__ import annotations

from typing import Any

import numpy as np

from windtunnel.papers import ClaimResult
from windtunnel.papers.claims import Measure, Values, load, results, served
from windtunnel.serving.deployment import prepare
from windtunnel.serving.results import ServingResult

TITLE = "Splitwise (Patel et al. 2024)"
_STEPS = 7
"""Halvings of a rate between 0.05 and 10 requests per second and machine: 2 %, averaged over two."""
_PERCENTILES = (50, 90, 99)


def setting() -> Values:
    """The settings and claims, as written in `setting.yaml`."""
    return load(__package__ or "windtunnel.papers.splitwise")


def fixed(name: str) -> Any:
    """One value that the paper gives or a rule fixes."""
    return setting()["fixed"][name]["value"]


def scenario(kind: str, machines: int, tokens: int, rate: float, values: Values, **cluster: Any) -> Values:
    """One run.

    Args:
        kind: of the machines.
        machines: in all.
        tokens: of them, those that make tokens; 0: whole machines.
        rate: requests per second.
        values: of the open settings.
        cluster: further fields of the cluster.
    """
    lengths = fixed("lengths")[values["load"]]
    law = {"distribution": "lognormal", "min": 1}
    common = {"plan": {"tp": fixed("tp")}, "limits": fixed("limits"), "policy": fixed("policy")}
    pools = [{**common, "replicas": machines}]
    if tokens:
        pools = [
            {**common, "role": "prefill", "replicas": machines - tokens},
            {**common, "role": "decode", "replicas": tokens},
        ]
    serving: Values = {
        "engine": "generic", "pools": pools, "router": fixed("router"),
        "traffic": {
            "rate_per_s": rate, "num_requests": max(int(rate * fixed("seconds")), 100), "seed": 1,
            "input_tokens": {**law, **lengths["input"]}, "output_tokens": {**law, **lengths["output"]},
        },
    }  # fmt: skip
    if tokens:
        serving["transfer"] = fixed("transfer")
    device = fixed("machines")[kind]["device"]
    return {
        "model": values["model"], "serving": serving,
        "cluster": {"device": device, "nodes": machines, "devices_per_node": 8, **cluster},
    }  # fmt: skip


def alone(result: ServingResult, values: Values) -> dict[str, Any]:
    """Seconds of each request of a run on an A100 machine with nothing else to do."""
    iteration = prepare(scenario("a100", 1, 0, 1.0, values)).iteration
    table = result.table
    prompt, answer = table["input_tokens"].astype(float), table["output_tokens"].astype(float)
    # iterations are linear in pairs and cached tokens, and a table in tokens
    first = np.interp(prompt, iteration.linear.tokens, iteration.linear.seconds) + iteration.base_s
    first += iteration.prefill_pair_s * prompt**2 / 2 + iteration.prefill_token_s * prompt
    launched = np.where(prompt > iteration.captured, iteration.prefill_floor_s, 0.0)
    first = np.maximum(first + iteration.per_sequence_s, launched) + iteration.request_s
    step = iteration.seconds(1.0, sequences=1.0) + iteration.decode_kv_s * (prompt + answer / 2)
    return {"ttft": first, "tpot": step, "e2e": first + step * (answer - 1)}


def within(result: ServingResult, values: Values) -> bool:
    """Whether every percentile of every slowdown is inside its objective."""
    own = alone(result, values)
    done = np.asarray(result.table["completed"], bool)
    if not done.all():
        return False
    for name, limits in fixed("slowdowns").items():
        slow = result.table[f"{name}_s"] / own[name]
        found = np.percentile(slow[np.isfinite(slow)], _PERCENTILES)
        if (found > np.array(limits)).any():
            return False
    return True


def most(kind: str, machines: int, tokens: int, values: Values) -> float:
    """Most requests per second within the objectives; 0 where none is."""
    low, high = 0.05 * machines, 10.0 * machines
    if not within(served(scenario(kind, machines, tokens, low, values)), values):
        return 0.0
    for _ in range(_STEPS):
        middle = (low * high) ** 0.5
        if within(served(scenario(kind, machines, tokens, middle, values)), values):
            low = middle
        else:
            high = middle
    return float((low * high) ** 0.5)


def split(kind: str, machines: int, values: Values) -> float:
    """The best of all sizes of the two pools."""
    return max(most(kind, machines, tokens, values) for tokens in fixed("token_machines"))


def _cost(kind: str) -> float:
    return float(fixed("machines")[kind]["cost"] * fixed(kind))


def capped(values: Values, *, prompt: bool) -> float:
    """Seconds of an iteration on an H100 machine at 70 % of its power over one without a cap."""
    lengths = fixed("lengths")["conversation"]
    tokens = float(lengths["input"]["mean"])
    seconds = []
    for cap in (490.0, None):
        cluster = {} if cap is None else {"power_cap_w": cap}
        m = prepare(scenario("h100", 1, 0, 1.0, values, **cluster)).iteration
        if prompt:
            seconds.append(m.seconds(tokens, pairs=tokens**2 / 2, prompt_tokens=tokens))
        else:
            seconds.append(m.seconds(32.0, kv=32 * tokens, sequences=32.0))
    return seconds[0] / seconds[1]


def moving(values: Values) -> float:
    """Seconds that a cache takes after its prompt's end, over the time of a request, at half load."""
    r = served(scenario("a100", 10, 5, 10.0, values))
    return float(r.transfer["moving_s"]["mean"] / r.e2e_s.mean)


def measures() -> dict[str, Measure]:
    """Claim → how it is measured, in the order of the table."""
    return {
        "rate/aa-over-a100": lambda v: split("a100", fixed("a100"), v) / most("a100", fixed("a100"), 0, v),
        "rate/aa-over-h100": lambda v: split("a100", fixed("a100"), v) / most("h100", fixed("h100"), 0, v),
        "cost/aa-over-h100": lambda _: _cost("a100") / _cost("h100"),
        "capped/tokens": lambda v: capped(v, prompt=False),
        "capped/prompts": lambda v: capped(v, prompt=True),
        "transfer/share": moving,
    }


def run() -> list[ClaimResult]:
    """Rates at equal power, and what splitting costs."""
    return results(setting(), "splitwise", measures())
