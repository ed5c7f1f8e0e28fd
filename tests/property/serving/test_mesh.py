"""Laws of deployments that share devices: nobody lost, memory within its bounds, sharing serves more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.serving.event_loop.fleet import single_pool
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.event_loop.loop_rules import LoopRules
from windtunnel.serving.event_loop.reference import ReferenceLoop
from windtunnel.serving.event_loop.requests import Requests
from windtunnel.serving.event_loop.twin.batch_policy import Policy
from windtunnel.serving.event_loop.twin.instance import Instance
from windtunnel.serving.event_loop.twin.request import Request
from windtunnel.serving.multi_model.placement import ModelPlacement, PlacedRouter
from windtunnel.serving.multi_model.state import Device, LineByModel, Rules
from windtunnel.serving.multi_model.turns import Turns
from windtunnel.serving.simulate import simulate_serving

LINEAR = 0.01 + np.arange(4000) * 2e-5
LIMITS = Limits(budget=2048, max_seqs=16, block=16, blocks=600, kv_s=1e-7, reserve=True)
RULES = Rules(shared=True, keep_alive_s=1.0, ttft_s=2.0, tpot_s=0.25)


def jobs(seed: int, tenants: int = 8, count: int = 150, rate: float = 4.0) -> Requests:
    g = np.random.default_rng(seed)
    at = g.exponential(1 / rate, count).cumsum()
    prompts, answers = g.integers(10, 900, count), g.integers(1, 120, count)
    return requests(at, prompts, answers, tenant=g.integers(tenants, size=count).astype(np.int32))


def requests(at: Any, prompts: Any, answers: Any, **more: Any) -> Requests:
    return Requests(
        arrival_s=np.array(at, float),
        input_tokens=np.array(prompts, np.int32),
        output_tokens=np.array(answers, np.int32),
        **more,
    )


class Watched(Turns):
    """Looks at every device whenever something happened."""

    def form(self, one: Instance, now: float, policy: Policy, record: Any) -> None:
        for x in self.placement.devices:
            mine = [q for own in x.deployed.values() for q in (*own.waiting, *own.running)]
            assert x.weight_blocks * len(x.deployed) + sum(q.blocks for q in mine) == x.one.used <= x.blocks
            assert all(len(own.running) <= LIMITS.max_seqs for own in x.deployed.values())
            if not self.placement.rules.shared:
                assert sum(not own.idle for own in x.deployed.values()) <= 1
        super().form(one, now, policy, record)


def serve(
    sent: Requests, count: int, rules: Rules = RULES, *, slow: int = 0
) -> tuple[list[Request], ModelPlacement, list[Device]]:
    """`slow`: how many devices more there are, hosts that take a thousand times as long."""
    placement = ModelPlacement(rules, [])

    def execution(one: Instance) -> Turns:
        host = one.index >= count
        linear = LINEAR * 1000 if host else LINEAR
        load_s = 0.0 if host else 0.5
        placement.devices.append(Device(one=one, linear=linear, weight_blocks=300, load_s=load_s, host=host))
        return Watched(placement.devices[-1], placement)

    own = LoopRules(router=PlacedRouter(placement), queue=LineByModel(), control=placement, execution=execution)
    served = ReferenceLoop(sent, single_pool(LIMITS, LINEAR, count + slow), own).run()
    return served, placement, placement.devices


@pytest.mark.parametrize("shared", [True, False])
def test_nobody_is_lost_and_memory_holds(shared: bool) -> None:
    for seed in range(4):
        served, placement, devices = serve(jobs(seed), 2, replace(RULES, shared=shared))
        assert not placement.line and all(q.over and not q.rejected for q in served)
        for q in served:
            assert q.made == q.output
            assert q.arrival <= q.scheduled < q.first <= q.finish
        assert all(not own.running and not own.waiting for x in devices for own in x.deployed.values())


def test_one_request_takes_its_load_its_prompt_and_its_steps() -> None:
    (q,), _, (device,) = serve(requests([1.0], [400], [11]), 1)
    assert q.first == pytest.approx(1.0 + 0.5 + device.prefill_s(400))
    steps = [device.step_s(1, 401.0 + i) for i in range(10)]
    assert q.finish - q.first == pytest.approx(sum(steps))
    assert q.instance == 0


def test_sharing_meets_more_objectives_and_another_device_helps() -> None:
    def good(shared: bool, count: int) -> int:
        served, *_ = serve(jobs(5, rate=6.0, count=300), count, replace(RULES, shared=shared))
        return sum(q.first - q.arrival <= RULES.ttft_s for q in served)

    assert good(True, 2) > 1.2 * good(False, 2)
    assert good(True, 3) >= good(True, 2)


def test_a_device_that_is_too_slow_gets_nothing_in_time_and_what_never_fits_is_refused() -> None:
    served, *_ = serve(jobs(2, count=40, rate=1.0), 1, slow=1)
    assert {q.instance for q in served} == {0}
    (huge,), *_ = serve(requests([0.0], [20_000], [5]), 1)
    assert huge.rejected


def test_turns_of_a_conversation_follow_the_answer_before() -> None:
    talks = jobs(4, count=60)
    talks.follow[:30] = np.arange(30, 60)
    talks.delay_s[:30] = 0.25
    served, *_ = serve(talks, 2)
    for i in range(30):
        assert served[i + 30].arrival == served[i].finish + 0.25
    assert all(q.made == q.output for q in served)


def test_scenario() -> None:
    def result(**mesh: Any) -> Any:
        return simulate_serving(
            {
                "model": "meta-llama/Llama-3.2-1B",
                "cluster": {"device": "l4-24gb", "nodes": 1, "devices_per_node": 2},
                "serving": {
                    "pools": [{"replicas": 2}],
                    "mesh": mesh,
                    "slo": {"ttft_s": 1.0, "tpot_s": 0.2},
                    "traffic": {
                        "rate_per_s": 3,
                        "num_requests": 200,
                        "input_tokens": 300,
                        "output_tokens": 60,
                        "tenants": [{"name": f"m{i}"} for i in range(10)],
                    },
                },
            }
        )

    shared, alone = result(), result(sharing="exclusive")
    assert shared.completed == alone.completed == 200
    assert shared.slo_attainment > alone.slo_attainment
    assert set(shared.tenants) == {f"m{i}" for i in range(10)}
    with pytest.raises(BadInput, match=r"needs traffic\.tenants"):
        simulate_serving(
            {
                "model": "meta-llama/Llama-3.2-1B",
                "cluster": {"device": "l4-24gb", "nodes": 1, "devices_per_node": 1},
                "serving": {
                    "mesh": {},
                    "traffic": {"rate_per_s": 1, "num_requests": 2, "input_tokens": 1, "output_tokens": 1},
                },
            }
        )
