"""Laws of deployments that share devices: nobody lost, memory within its bounds, sharing serves more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from windtunnel.errors import BadInput
from windtunnel.serving.event_loop.instance_limits import Limits
from windtunnel.serving.multi_model import Device, Rules, serve
from windtunnel.serving.multi_model.loop import Loop
from windtunnel.serving.multi_model.state import Job
from windtunnel.serving.simulate import simulate_serving

LINEAR = 0.01 + np.arange(4000) * 2e-5
LIMITS = Limits(budget=2048, max_seqs=16, block=16, blocks=600, kv_s=1e-7)
RULES = Rules(shared=True, keep_alive_s=1.0, start_s=0.1, ttft_s=2.0, tpot_s=0.25)


def jobs(seed: int, tenants: int = 8, count: int = 150, rate: float = 4.0) -> list[Job]:
    g = np.random.default_rng(seed)
    at = g.exponential(1 / rate, count).cumsum()
    sizes = zip(g.integers(10, 900, count).tolist(), g.integers(1, 120, count).tolist(), strict=True)
    return [
        Job(index=i, tenant=int(g.integers(tenants)), input=a, output=b, arrival=float(at[i]))
        for i, (a, b) in enumerate(sizes)
    ]


def devices(count: int, **more: Any) -> list[Device]:
    return [Device(index=k, limits=LIMITS, linear=LINEAR, weight_blocks=300, load_s=0.5, **more) for k in range(count)]


class Watched(Loop):
    """Looks at every device whenever something happened."""

    def _next(self, device: Device, now: float) -> None:
        for one in self.devices:
            own = sum(
                one.weight_blocks + sum(j.blocks for j in (*x.waiting, *x.running)) for x in one.deployed.values()
            )
            assert own == one.used <= one.blocks
            assert all(len(x.running) <= one.limits.max_seqs for x in one.deployed.values())
            if not self.rules.shared:
                assert sum(not x.idle for x in one.deployed.values()) <= 1
        super()._next(device, now)


@pytest.mark.parametrize("shared", [True, False])
def test_nobody_is_lost_and_memory_holds(shared: bool) -> None:
    for seed in range(4):
        mine, busy = jobs(seed), [0.0, 0.0]

        def note(device: Device, seconds: float, *_: Any, busy: list[float] = busy) -> None:
            busy[device.index] += seconds

        loop = Watched(mine, devices(2), replace(RULES, shared=shared), note)
        loop.run()
        assert sorted(j.index for j in loop.ended) == list(range(len(mine)))
        assert not loop.line and not loop.refused
        for j in loop.ended:
            assert j.made == j.output
            assert j.arrival <= loop.started[j.index] < j.first <= j.last
        end = max(j.last for j in loop.ended)
        assert all(b <= end for b in busy)
        assert all(not x.running and not x.waiting for one in loop.devices for x in one.deployed.values())


def test_one_request_takes_its_load_its_prompt_and_its_steps() -> None:
    job = Job(index=0, tenant=0, input=400, output=11, arrival=1.0)
    one = devices(1)[0]
    loop = serve([job], [one], RULES, lambda *_: None)
    assert job.first == pytest.approx(1.0 + 0.5 + one.prefill_s(400))
    steps = [one.step_s([replace(job, made=1 + i)]) for i in range(10)]
    assert job.last - job.first == pytest.approx(sum(steps))
    assert loop.where == {0: 0}


def test_sharing_meets_more_objectives_and_another_device_helps() -> None:
    def good(shared: bool, count: int) -> int:
        loop = serve(jobs(5, rate=6.0, count=300), devices(count), replace(RULES, shared=shared), lambda *_: None)
        return sum(j.first - j.arrival <= RULES.ttft_s for j in loop.ended)

    assert good(True, 2) > 1.2 * good(False, 2)
    assert good(True, 3) >= good(True, 2)


def test_a_device_that_is_too_slow_gets_nothing_in_time_and_what_never_fits_is_refused() -> None:
    slow = Device(index=1, limits=LIMITS, linear=LINEAR * 1000, weight_blocks=300, load_s=0.0, host=True)
    loop = serve(jobs(2, count=40, rate=1.0), [*devices(1), slow], RULES, lambda *_: None)
    assert set(loop.where.values()) == {0}
    huge = serve([Job(index=0, tenant=0, input=20_000, output=5, arrival=0.0)], devices(1), RULES, lambda *_: None)
    assert [j.index for j in huge.refused] == [0]


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
