"""Tenants and classes in traffic: who sends how much, what prompts share, what results say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.serving.event_loop.prefix_chains import chains_of
from windtunnel.serving.event_loop.requests import DONE, Requests
from windtunnel.serving.results.per_tenant import fairness
from windtunnel.serving.simulate import simulate_serving
from windtunnel.serving.traffic import generate
from windtunnel.specs.traffic import Tenant, TrafficSpec

BASE: dict[str, Any] = {
    "rate_per_s": 8.0,
    "num_requests": 400,
    "input_tokens": {"distribution": "uniform", "min": 100, "max": 300},
    "output_tokens": 20,
}


def drawn(*tenants: dict[str, Any], **more: Any) -> Requests:
    named = [{"name": f"t{i}"} | t for i, t in enumerate(tenants)]
    return generate(TrafficSpec.model_validate(BASE | {"tenants": named} | more)).requests


def test_shares_rates_and_times() -> None:
    requests = drawn({"share": 3}, {"share": 1}, {"rate_per_s": 4.0, "num_requests": 100, "start_s": 10.0})
    assert np.bincount(requests.tenant).tolist() == [225, 75, 100]
    assert (np.diff(requests.arrival_s) >= 0).all()
    late = requests.arrival_s[requests.tenant == 2]
    assert late.min() > 10.0
    assert np.ptp(late) == pytest.approx(25.0, rel=0.35)
    rates = [225 / requests.arrival_s[requests.tenant == 0].max(), 75 / requests.arrival_s[requests.tenant == 1].max()]
    assert rates == pytest.approx([6.0, 2.0], rel=0.3)


def test_a_tenant_draws_the_same_whoever_else_sends() -> None:
    few, many = (
        drawn({"rate_per_s": 4.0}, num_requests=100),
        drawn({"rate_per_s": 4.0, "num_requests": 100}, {"rate_per_s": 50.0, "num_requests": 300}),
    )
    mine = many.tenant == 0
    assert np.array_equal(few.arrival_s, many.arrival_s[mine])
    assert np.array_equal(few.input_tokens, many.input_tokens[mine])


def test_prefixes_are_own_or_common() -> None:
    requests = drawn({"shared_prefix_tokens": 64, "prefixes": 2}, {}, {}, shared_prefix_tokens=32)
    chains = chains_of(requests, 16)
    heads = chains.nodes[chains.start[:-1]]
    own = set(heads[requests.tenant == 0].tolist())
    common = set(heads[requests.tenant == 1].tolist())
    assert len(own) == 2 and len(common) == 1
    assert common == set(heads[requests.tenant == 2].tolist())
    assert not own & common
    assert set(chains.size[list(own)].tolist()) == {4}
    assert (requests.prefix_tokens[requests.tenant == 0] > 0).sum() == (requests.tenant == 0).sum() - 2


def test_sessions_keep_their_order_and_content() -> None:
    requests = drawn({"sessions": {"turns": {"mean": 4}}, "shared_prefix_tokens": 48}, {})
    some = np.flatnonzero(requests.follow >= 0)
    assert len(some) > 100
    after = requests.follow[some]
    assert (requests.tenant[some] == requests.tenant[after]).all()
    assert (after > some).all()
    chains = chains_of(requests, 16)
    for a, b in zip(some[:20].tolist(), after[:20].tolist(), strict=True):
        first = chains.nodes[chains.start[a] : chains.start[a + 1]].tolist()
        assert chains.nodes[chains.start[b] : chains.start[b + 1]].tolist()[: len(first)] == first


def test_closed_loops_and_offline() -> None:
    requests = drawn({"concurrency": 5, "num_requests": 50}, {}, num_requests=150)
    mine = requests.tenant == 0
    assert (requests.arrival_s[mine] == 0).sum() == 5
    assert (requests.follow[mine] >= 0).sum() == 45
    assert np.isnan(requests.arrival_s[mine]).sum() == 45
    mixed = drawn({"share": 3}, {}, rate_per_s=None, offline=True)
    assert np.bincount(mixed.tenant[:40]).tolist() == [30, 10]  # evenly mixed


def test_classes_are_drawn_by_share_and_read_by_priority_alone() -> None:
    spec = TrafficSpec.model_validate(BASE | {"priorities": [0.25, 0.75]})
    requests = generate(spec).requests
    assert (requests.priority == 0).mean() == pytest.approx(0.25, abs=0.06)
    first = {}
    for queue in ("fcfs", "priority"):
        result = simulate_serving(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "cluster": {"device": "l4-24gb", "nodes": 1, "devices_per_node": 1},
                "serving": {
                    "pools": [{"queue": queue, "limits": {"max_num_seqs": 8}}],
                    "traffic": BASE | {"priorities": [0.25, 0.75]},
                },
            }
        )
        first[queue] = np.nanmean(result.table["ttft_s"][requests.priority == 0])
    assert first["priority"] < 0.5 * first["fcfs"]


def test_fairness_of_known_service() -> None:
    n = 100
    requests = Requests(
        arrival_s=np.arange(n) * 1.0, input_tokens=np.full(n, 10, np.int32), output_tokens=np.full(n, 5, np.int32)
    )
    requests.tenant = (np.arange(n) % 2).astype(np.int32)
    requests.first_token_s, requests.finish_s = requests.arrival_s + 0.1, requests.arrival_s + 0.2
    requests.state[:] = DONE
    even = fairness(requests, np.ones(2))
    assert even["jain_index"] == pytest.approx(1.0)
    assert even["service_difference_max"] <= 20.0  # what came just now
    assert fairness(requests, np.array([3.0, 1.0]))["jain_index"] == pytest.approx(0.8)  # (1/3 + 1)² / (2 · (1/9 + 1))


def test_what_contradicts_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"share: and rate_per_s exclude.*end_s = 3.0: must be above start_s 5"):
        Tenant.model_validate({"name": "a", "share": 1, "rate_per_s": 2, "start_s": 5, "end_s": 3})
    with pytest.raises(ValueError, match=r"tenants = a: must have names.*priorities: are those of the tenants"):
        TrafficSpec.model_validate(BASE | {"tenants": [{"name": "a"}, {"name": "a"}], "priorities": [1]})
    with pytest.raises(ValueError, match="must not all be 0"):
        TrafficSpec.model_validate(BASE | {"priorities": [0, 0]})
    with pytest.raises(BadInput, match="max_num_seqz"):
        simulate_serving(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "cluster": {"device": "l4-24gb", "nodes": 1, "devices_per_node": 1},
                "serving": {"traffic": BASE | {"tenants": [{"name": "a"}]}, "pools": [{"limits": {"max_num_seqz": 1}}]},
            }
        )
