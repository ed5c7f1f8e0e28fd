"""Clusters of split and of whole machines at equal power, as the authors' sweeps compare them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from windtunnel import api
from windtunnel.serving.deployment import prepare, with_longer_tables
from windtunnel.serving.iteration.iteration_model import IterationModel
from windtunnel.serving.results.serving_result import ServingResult
from windtunnel_lab.reproduce.claims import Measure, served
from windtunnel_lab.reproduce.experiment import Experiment
from windtunnel_lab.reproduce.settings import Values

EXPERIMENT = Experiment(__name__)
fixed = EXPERIMENT.fixed
_LEAST, _MOST, _CLOSE = 0.2, 6.0, 1.06
"""Requests per second and machine between which rates are halved, and the ratio at which that ends."""
_PERCENTILES = (50, 90, 99)


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
    law = {"distribution": "empirical"}
    common = {"plan": {"tp": fixed("tp")}, "limits": fixed("limits"), "policy": fixed("policy")}
    pools = [{**common, "replicas": machines}]
    if tokens:
        pools = [
            {**common, "role": "prefill", "replicas": machines - tokens},
            {**common, "role": "decode", "replicas": tokens},
        ]
    serving: Values = {
        "engine": "generic",
        "pools": pools,
        "router": fixed("router"),
        "traffic": {
            "rate_per_s": rate,
            "num_requests": max(int(rate * fixed("seconds")), 100),
            "seed": 1,
            "input_tokens": {**law, "values": lengths["input"]},
            "output_tokens": {**law, "values": lengths["output"]},
        },
    }
    if tokens:
        serving["transfer"] = fixed("transfer")
    device = fixed("machines")[kind]["device"]
    return {
        "model": values["model"],
        "serving": serving,
        "cluster": {"device": device, "nodes": machines, "devices_per_node": 8, **cluster},
    }


@lru_cache(maxsize=8)
def _undisturbed(model: str, load: str) -> IterationModel:
    """Iterations of an A100 machine, up to the longest prompt."""
    longest = max(fixed("lengths")[load]["input"])
    return with_longer_tables(prepare(scenario("a100", 1, 0, 1.0, {"model": model, "load": load})), longest).iteration


def alone(result: ServingResult, values: Values) -> dict[str, Any]:
    """Seconds of each request of a run on an A100 machine with nothing else to do."""
    table = result.table
    iteration = _undisturbed(values["model"], values["load"])
    prompt, answer = table["input_tokens"].astype(float), table["output_tokens"].astype(float)
    # iterations are linear in pairs and cached tokens, and a table in tokens
    first = np.interp(prompt, iteration.linear.tokens, iteration.linear.seconds) + iteration.base_s
    first += iteration.prefill_pair_s * prompt**2 / 2 + iteration.prefill_token_s * prompt
    launched = np.where(prompt > iteration.captured, iteration.prefill_floor_s, 0.0)
    first = np.maximum(first + iteration.per_sequence_s, launched) + iteration.request_s
    step = iteration.seconds(1.0, sequences=1.0) + iteration.decode_kv_s * (prompt + answer / 2)
    return {"ttft": first, "tbt": step, "e2e": first + step * (answer - 1)}


def seen(result: ServingResult) -> dict[str, Any]:
    """Seconds of each request; between tokens as the simulator counts them, over all tokens of the answer."""
    table = result.table
    first, whole = table["ttft_s"], table["e2e_s"]
    return {"ttft": first, "tbt": (whole - first) / table["output_tokens"], "e2e": whole}


def within(result: ServingResult, values: Values) -> bool:
    """Whether every percentile of every slowdown is inside its objective."""
    own = alone(result, values)
    done = np.asarray(result.table["completed"], bool)
    if not done.all():
        return False
    times = seen(result)
    for name, limits in fixed("slowdowns").items():
        slow = times[name] / own[name]
        found = np.percentile(slow[np.isfinite(slow)], _PERCENTILES)
        if (found > np.array(limits)).any():
            return False
    return True


def most(kind: str, machines: int, tokens: int, values: Values, at_least: float = 0.0) -> float:
    """Most requests per second within the objectives; 0 where none is, or none above `at_least`."""

    def holds(rate: float) -> bool:
        return within(api.simulate_serving(scenario(kind, machines, tokens, rate, values)), values)

    low, high = max(_LEAST * machines, at_least), _MOST * machines
    if not holds(low):
        return 0.0
    while high / low > _CLOSE:
        middle = (low * high) ** 0.5
        if holds(middle):
            low = middle
        else:
            high = middle
    return float((low * high) ** 0.5)


@lru_cache(maxsize=16)
def _rate(kind: str, machines: int, model: str, load: str, *, split: bool) -> float:
    """Requests per second of whole machines, or of two pools at their best sizes.

    Sizes of the pools are tried outwards from the middle until two in a row are worse.
    """
    values, best = {"model": model, "load": load}, 0.0
    if not split:
        return most(kind, machines, 0, values)
    sizes = fixed("token_machines")
    middle = len(sizes) // 2
    for side in (sizes[middle:], sizes[:middle][::-1]):
        worse = 0
        for tokens in side:
            found = most(kind, machines, tokens, values, at_least=best)
            best, worse = max(best, found), 0 if found else worse + 1
            if worse == 2:
                break
    return best


def rate(kind: str, values: Values, *, split: bool) -> float:
    """Most requests per second of the cluster of a kind."""
    return _rate(kind, fixed(kind), values["model"], values["load"], split=split)


def _cost(kind: str) -> float:
    return float(fixed("machines")[kind]["cost"] * fixed(kind))


def capped(values: Values, *, prompt: bool) -> float:
    """Seconds of an iteration on an H100 machine at 70 % of its power over one without a cap."""
    lengths = fixed("lengths")["conversation"]
    tokens = float(np.mean(lengths["input"]))
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
        "rate/aa-over-a100": lambda v: rate("a100", v, split=True) / rate("a100", v, split=False),
        "rate/aa-over-h100": lambda v: rate("a100", v, split=True) / rate("h100", v, split=False),
        "cost/aa-over-h100": lambda _: _cost("a100") / _cost("h100"),
        "capped/tokens": lambda v: capped(v, prompt=False),
        "capped/prompts": lambda v: capped(v, prompt=True),
        "transfer/share": moving,
    }
