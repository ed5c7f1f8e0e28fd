"""Laws of routers and admission rules that look ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from serving_requests import LIMITS, LINEAR, context, drawn

from windtunnel.serving.admission import ADMISSION
from windtunnel.serving.event_loop import reference
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.instance_limits import Router as Rule
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.requests import DONE, REJECTED, SHED, Requests
from windtunnel.serving.event_loop.ttft_forecast import Forecast
from windtunnel.serving.queues import Queue
from windtunnel.serving.routers import ROUTERS

AHEAD = ("kv_aware", "cache_aware", "llm_d", "slo_aware", "d2lpm")


def routed(id: str, requests: Requests, instances: int = 3, *, limits: Limits = LIMITS, **more: Any) -> Requests:
    entry = ROUTERS.get(id)
    router = entry.twin(entry.rule or Rule.ROUND_ROBIN, 0)
    knobs = {name: knob.default for name, knob in entry.knobs.items()}
    ttft = more.pop("ttft_s", float("inf"))
    router.context = context(3, ttft_s=ttft, **(knobs | more))
    reference.serve(requests, LINEAR, limits, instances, LoopRules(router=router, queue=Queue(context(3))))
    return requests


@pytest.mark.parametrize("id", AHEAD)
def test_nobody_is_lost(id: str) -> None:
    for seed in range(3):
        requests = routed(id, drawn(seed, rate_per_s=30.0))
        assert set(requests.state.tolist()) <= {DONE, REJECTED}
        assert set(requests.instance.tolist()) == {0, 1, 2}  # an even load uses all of them


@pytest.mark.parametrize("id", ["kv_aware", "cache_aware", "llm_d", "d2lpm"])
def test_prefixes_are_found_again(id: str) -> None:
    def traffic() -> Requests:
        return drawn(
            1,
            rate_per_s=25.0,
            num_requests=300,
            input_tokens=520,
            output_tokens=8,
            tenants=[{"name": str(i), "shared_prefix_tokens": 480, "prefixes": 6} for i in range(3)],
        )

    own, other = routed(id, traffic()), routed("round_robin", traffic())
    assert own.cached_tokens.sum() > 1.2 * other.cached_tokens.sum()


def test_d2lpm_spreads_one_tenant_whose_work_matches_in_one_place() -> None:
    def traffic() -> Requests:
        return drawn(
            1,
            rate_per_s=60.0,
            num_requests=240,
            input_tokens=300,
            output_tokens=10,
            tenants=[{"name": str(i), "shared_prefix_tokens": 280, "share": s} for i, s in enumerate((20.0, 1.0, 1.0))],
        )

    counts = {}
    for id, knobs in (("d2lpm", {"quantum": 200.0}), ("cache_aware", {})):
        counts[id] = np.bincount(routed(id, traffic(), **knobs).instance, minlength=3)
    assert counts["d2lpm"].max() < 1.5 * counts["d2lpm"].min()
    assert counts["cache_aware"].max() > 3 * counts["cache_aware"].min()


def test_slo_aware_misses_fewer_objectives() -> None:
    def late(id: str) -> int:
        total = 0
        for seed in range(4):
            requests = drawn(
                seed,
                rate_per_s=110.0,
                num_requests=400,
                output_tokens=4,
                shared_prefix_tokens=0,
                input_tokens={"distribution": "lognormal", "mean": 300, "cv": 2.0, "max": 2400},
                tenants=[{"name": str(i)} for i in range(3)],
            )
            routed(id, requests, ttft_s=0.08, limits=replace(LIMITS, max_seqs=32, blocks=2000))
            total += int((requests.first_token_s - requests.arrival_s > 0.08).sum())
        return total

    assert late("slo_aware") < 0.7 * late("round_robin")


def test_the_forecast_is_right_where_nothing_comes_later() -> None:
    """Prompts that come at once, answers of one token: the queue alone decides."""

    class Asked(reference.Admission):
        def begin(self, instances: Any) -> None:
            self.forecast, self.said = Forecast(instances), []

        def accepts(self, one: Any, q: Any, now: float) -> bool:
            self.said.append(self.forecast.ttft_s(one, q, now))
            return True

    rule = Asked()
    requests = Requests(
        arrival_s=np.zeros(12), input_tokens=np.full(12, 500, np.int32), output_tokens=np.ones(12, np.int32)
    )
    reference.serve(requests, LINEAR, Limits(budget=500, max_seqs=64), 1, LoopRules(admission=rule))
    assert rule.said == pytest.approx(requests.first_token_s.tolist())


def overload(**more: Any) -> Requests:
    tenants = [{"name": str(i), "shared_prefix_tokens": 48} for i in range(3)]
    return drawn(2, rate_per_s=60.0, num_requests=500, tenants=tenants, **more)


def test_load_is_shed_so_that_those_who_come_in_are_served_in_time() -> None:
    limit, late = 0.8, {}
    for id in ("all", "predicted_ttft"):
        rule = ADMISSION.get(id)(context(3, ttft_s=limit, margin=0.8))
        requests = overload()
        reference.serve(requests, LINEAR, LIMITS, 1, LoopRules(admission=rule, queue=Queue(context(3))))
        done = requests.state == DONE
        late[id] = float((requests.first_token_s - requests.arrival_s > limit)[done].mean())
        assert done.sum() + (requests.state == SHED).sum() == len(requests)
    assert late["all"] > 0.5
    assert late["predicted_ttft"] < 0.2
    assert done.sum() > 50


def test_a_line_has_its_length_and_a_tenant_its_rate() -> None:
    rule = ADMISSION.get("max_waiting")(context(3, requests=3))
    requests = overload()
    reference.serve(requests, LINEAR, LIMITS, 1, LoopRules(admission=rule, queue=Queue(context(3))))
    taken = np.sort(requests.arrival_s[requests.state == DONE])
    begun = np.sort(requests.scheduled_s[requests.state == DONE])
    in_line = np.arange(1, len(taken) + 1) - np.searchsorted(begun, taken, side="left")
    assert in_line.max() <= 3 + 1
    rule = ADMISSION.get("requests_per_minute")(context(3, requests=20))
    requests = overload()
    reference.serve(requests, LINEAR, LIMITS, 1, LoopRules(admission=rule, queue=Queue(context(3))))
    for t in range(3):
        assert (requests.state[requests.tenant == t] == DONE).sum() == 20


def test_what_is_wrong_with_names_and_knobs_is_said_at_once() -> None:
    from windtunnel.errors import BadInput
    from windtunnel.serving.simulate import prepare

    scenario = {
        "model": "meta-llama/Llama-3.1-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
        "serving": {
            "router": {"llm_d": {"queue_wieght": 1}},
            "pools": [{"queue": {"dlpm": {"quantum": -1}}, "admission": "al"}],
            "traffic": {"rate_per_s": 1, "num_requests": 5, "input_tokens": 10, "output_tokens": 5},
        },
    }
    with pytest.raises(BadInput) as error:
        prepare(scenario)
    found = {p.field: p for p in error.value.problems}
    assert found["serving.router.llm_d.queue_wieght"].nearest == "queue_weight"
    assert "serving.pools[0].queue.dlpm.quantum" in found
    assert found["serving.pools[0].admission"].nearest == "all"


def test_pools_that_say_different_things_are_told_so() -> None:
    from windtunnel.errors import BadInput
    from windtunnel.serving.simulate import prepare

    groups = [
        {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
        {"device": "a100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
    ]
    pools = [{"group": 0, "queue": {"dlpm": {"quantum": 5}}}, {"group": 1, "queue": "dlpm", "admission": "max_waiting"}]
    with pytest.raises(BadInput) as error:
        prepare(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "cluster": {"groups": groups},
                "serving": {
                    "pools": pools,
                    "traffic": {"rate_per_s": 1, "num_requests": 5, "input_tokens": 10, "output_tokens": 5},
                },
            }
        )
    assert {p.field for p in error.value.problems} == {"serving.pools[1].queue", "serving.pools[1].admission"}
