"""`plan` of serving over groups of unlike devices, beside all deployments tried one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.techniques.limits import merged

PRICES = {"h100-sxm-80gb": 4.0, "a100-sxm-80gb": 1.5}
GROUPS = tuple(PRICES)
BASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {
        "groups": [{"device": one, "nodes": 1, "devices_per_node": 2} for one in GROUPS],
        "between": "2 x infiniband-hdr",
    },
    "serving": {
        "engine": "vllm",
        "traffic": {"rate_per_s": 9, "num_requests": 150, "input_tokens": 2000, "output_tokens": 80},
        "slo": {"ttft_s": 0.6, "tpot_s": 0.02, "percentile": 0.9},
    },
}
SEARCH = {
    "target": "serving",
    "objective": "cost_per_hour",
    "slo_at": "central",
    "prices": PRICES,
    "space": {
        "tp": [1],
        "pp": [1],
        "max_num_seqs": [64],
        "max_num_batched_tokens": [2048],
        "deployment": ["aggregated", "disaggregated"],
    },
}
LIMITS = {"max_num_seqs": 64, "max_num_batched_tokens": 2048}


def cost_of(base: dict[str, Any], pools: list[dict[str, Any]]) -> float:
    """Money an hour, infinite where the objective is missed."""
    own = [{"plan": {"tp": 1}, "limits": LIMITS, **pool} for pool in pools]
    result = api.simulate_serving(merged(base, {"serving": {"pools": own}}))
    price = sum(PRICES[GROUPS[pool["group"]]] * pool["replicas"] for pool in pools)
    return price if result.slo_met and not result.saturated else float("inf")


@pytest.mark.parametrize(("rate_per_s", "ttft_s", "device"), [(9, 0.6, None), (13, 0.6, "a100-sxm-80gb")])
def test_the_best_of_groups_is_the_best_of_all_deployments(
    rate_per_s: float, ttft_s: float, device: str | None
) -> None:
    asked = merged(BASE, {"serving": {"slo": {"ttft_s": ttft_s}, "traffic": {"rate_per_s": rate_per_s}}})
    every = [[{"group": g, "replicas": n}] for g, n in product((0, 1), (1, 2))]
    for (g, n), (h, m) in product(product((0, 1), (1, 2)), repeat=2):
        if g != h or n + m <= 2:
            every.append(
                [{"role": "prefill", "group": g, "replicas": n}, {"role": "decode", "group": h, "replicas": m}]
            )
    costs = [cost_of(asked, pools) for pools in every]
    found = api.plan(asked | {"search": SEARCH})
    assert found.best.values["cost_per_hour"] == pytest.approx(min(costs))
    assert found.best.plan.get("decode", {}).get("device") == device
    assert api.simulate_serving(found.scenario).slo_met


def test_devices_are_the_groups() -> None:
    space = SEARCH["space"] | {"device": ["l40-48gb"]}  # type: ignore[operator]
    with pytest.raises(BadInput, match="the groups are the device types"):
        api.plan(BASE | {"search": SEARCH | {"space": space}})


MOE: dict[str, Any] = {
    "model": "Qwen/Qwen3-30B-A3B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4},
    "serving": {
        "engine": "vllm",
        "expert_load": {"popularity": 0.5},
        "traffic": {"rate_per_s": 20, "num_requests": 150, "input_tokens": 1000, "output_tokens": 60},
        "slo": {"ttft_s": 0.5, "tpot_s": 0.03, "percentile": 0.9},
    },
    "search": {
        "target": "serving",
        "slo_at": "central",
        "objective": "tokens_per_s_per_device",
        "space": {
            "tp": [1],
            "dp": [4],
            "ep": [4],
            "pp": [1],
            "max_num_seqs": [64],
            "max_num_batched_tokens": [4096],
            "rate_per_s": [20],
        },
    },
}


@pytest.mark.parametrize("technique", ["eplb", {"vtc": {}}, "trail", "mscclpp"])
def test_techniques_that_set_fields_are_on_in_every_candidate(technique: Any) -> None:
    found = api.plan(MOE | {"techniques": [technique]})
    again = api.simulate_serving(found.scenario)
    assert again.techniques == found.result.techniques and len(again.techniques) == 1
    assert again.output_tokens_per_s == pytest.approx(found.best.values["tokens_per_s"], rel=0.01)
    assert again.tpot_s.p50 == pytest.approx(found.best.quantiles["tpot_p50_s"], rel=0.02)


@pytest.mark.parametrize(
    ("technique", "words"),
    [
        ("nanoflow", "changes iterations"),
        ("splitwise", "cuts pools in two"),
        ("semi-pd", "is not planned for"),
        ("fastgen-splitfuse", "is set by fastgen-splitfuse"),
    ],
)
def test_techniques_that_a_search_cannot_hold_are_refused(technique: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        api.plan(MOE | {"techniques": [technique]})
