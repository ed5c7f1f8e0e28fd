"""The front end of a server: the ceiling that people measure, and nothing where it has little to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.serving.run_setup.front_end import FrontEnd, front_end_of, waits_s
from windtunnel.specs.serving import ServingSpec
from windtunnel.stacks.serving_rules import serving_file

ONE = FrontEnd(request_s=0.01, token_s=0.001, servers=1, source="a test")


def served(rate: float, count: int, *, engine: str = "vllm", replicas: int = 1, **traffic: Any) -> Any:
    return api.simulate_serving(
        {
            "schema_version": 1,
            "model": "meta-llama/Llama-3.2-1B",
            "cluster": {"device": "a100-sxm-80gb", "nodes": 1},
            "serving": {
                "engine": engine,
                "pools": [{"replicas": replicas}],
                "traffic": {"num_requests": count, "input_tokens": 220, "output_tokens": 202, "rate_per_s": rate}
                | traffic,
            },
        }
    )


def told(result: Any) -> list[str]:
    return [note for note in result.warnings if "front end" in note]


def test_requests_wait_for_the_work_before_them_and_tokens_too() -> None:
    never = np.array([np.nan, np.nan])
    wait, _, _ = waits_s(ONE, np.array([0.0, 0.004]), never, never, np.array([1.0, 1.0]))
    np.testing.assert_allclose(wait, [0.0, 0.006])
    first, last = np.array([1.0, 1.0]), np.array([1.1, 1.1])
    wait, early, late = waits_s(ONE, np.array([0.0, 0.5]), first, last, np.array([101.0, 101.0]))
    np.testing.assert_allclose(wait, 0.0)
    # 200 tokens of 1 ms within 100 ms: half of their work is left, and the two first tokens
    np.testing.assert_allclose(late, 0.102, atol=1e-6)
    np.testing.assert_allclose(sorted(early), [0.0, 0.001], atol=1e-6)


def test_more_servers_share_the_queue() -> None:
    twice = FrontEnd(request_s=0.01, token_s=0.001, servers=2, source="a test")
    burst = np.zeros(4), np.full(4, np.nan), np.full(4, np.nan), np.ones(4)
    np.testing.assert_allclose(waits_s(ONE, *burst)[0], 2.0 * waits_s(twice, *burst)[0])
    assert twice.requests_per_s(90) == pytest.approx(2.0 * ONE.requests_per_s(90)) == pytest.approx(20.0)


def test_a_rate_above_the_ceiling_gets_the_ceiling() -> None:
    one = served(120, 6000)
    assert one.saturated and "77 requests a second" in told(one)[0]
    assert 6000 / one.duration_s == pytest.approx(76.5, rel=0.03), "measured: 10,000 requests in 130.7 s"
    assert not told(served(120, 6000, replicas=2)), "two servers have time"
    assert not told(served(120, 6000, engine="trtllm")), "no measurement is known"


def test_what_one_server_has_time_for_is_as_without_it() -> None:
    quiet = served(10, 300)
    assert not told(quiet) and not quiet.saturated
    assert not told(served(120, 300, rate_per_s=None, offline=True)), "no server is asked"


def test_a_burst_is_taken_in_one_after_the_other() -> None:
    burst = served(1e5, 1000)
    assert told(burst)
    assert burst.ttft_s.max > 1000 * 3.9e-3, "the last is tokenised after all others"


def test_releases_have_their_costs_and_old_ones_none() -> None:
    traffic = {"rate_per_s": 1, "num_requests": 1, "input_tokens": 1, "output_tokens": 1}
    serving = ServingSpec.model_validate({"traffic": traffic})
    new, old = front_end_of(serving, (), 1), front_end_of(serving, (0, 7, 2), 1)
    assert new is not None and old is not None and old.request_s > new.request_s
    assert front_end_of(serving, (0, 5, 3), 1) is None
    assert all(row["source"] for row in serving_file("vllm")["front_end"])
    quiet = front_end_of(serving.model_copy(update={"streaming": False}), (), 1)
    assert quiet is not None and quiet.token_s == 0.0
