"""Token rings, states of linear attention, words of attention, tokens shared by tensor ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.cost.attention_io import attention_words, blocked_words, bound_words, flash_words
from windtunnel.errors import BadInput
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.limits import limits_in_file, merged

TED, LASP = REGISTRY.get("deepspeed-ted"), REGISTRY.get("lasp")
DECLARED = limits_in_file("tokenring")
assert DECLARED is not None
CASE = DECLARED.scenario


def run(case: Any, change: Any = None, **more: Any) -> Any:
    return api.simulate_training(merged(merged(case, change or {}), more), sensitivities=False)


def test_a_token_ring_gains_on_links_to_each_peer_and_not_on_a_switch() -> None:
    switch = {"cluster": {"scale_up": {"topology": "switch"}}}
    ring, token = run(CASE), run(CASE, {"plan": {"cp_kind": "token_ring"}})
    assert token.step_time_s < 0.8 * ring.step_time_s
    ring = run(CASE, switch)
    token = run(CASE, merged(switch, {"plan": {"cp_kind": "token_ring"}}))
    # forward moves as much either way; backward three tensors go instead of four
    assert 0.95 * ring.step_time_s < token.step_time_s < ring.step_time_s


def test_one_message_may_be_slower_than_its_port() -> None:
    slow = run(CASE, {"cluster": {"scale_up": {"topology": "switch", "flow_bytes_per_s": "10 GB/s"}}})
    assert slow.step_time_s > run(CASE, {"cluster": {"scale_up": {"topology": "switch"}}}).step_time_s


def test_states_of_linear_attention_do_not_grow_with_the_sequence() -> None:
    assert LASP.limit_cases is not None
    cut = {"plan": {"cp": 8, "dp": "auto"}, "training": {"global_batch": 1}}
    exposed = [
        run(LASP.limit_cases.scenario, merged(cut, {"training": {"seq_len": n}})).breakdown["exposed cp"]
        for n in (32768, 262144)
    ]
    assert exposed[0] == pytest.approx(exposed[1], rel=1e-6)
    assert exposed[0] > 0


@pytest.mark.parametrize("cache", [600, 4096, 16384, 65536, 1 << 20])
def test_counted_words_stay_above_a_constant_part_of_the_bound(cache: int) -> None:
    n, d = 8192, 128
    assert attention_words(n, d, cache) == min(flash_words(n, d, cache), blocked_words(n, d, cache))
    assert attention_words(n, d, cache) >= bound_words(n, d, cache)
    assert np.isfinite(attention_words(n, d, cache))


def test_dropping_duplicates_moves_less_and_keeping_results_costs_memory() -> None:
    assert TED.limit_cases is not None
    case = TED.limit_cases.scenario
    sent = run(case)
    dropped = run(case, {"plan": {"expert_tokens": "dropped"}})
    kept = run(case, {"plan": {"recompute": {"policy": "full", "keep_collectives": True}}})
    assert dropped.breakdown["exposed ep"] < 0.6 * sent.breakdown["exposed ep"]
    assert dropped.peak_memory_allocated_bytes == sent.peak_memory_allocated_bytes
    assert kept.breakdown["exposed ep"] < 0.75 * sent.breakdown["exposed ep"]
    assert kept.peak_memory_allocated_bytes > sent.peak_memory_allocated_bytes


def test_shared_tokens_need_whole_rows_on_every_tensor_rank() -> None:
    assert TED.limit_cases is not None
    with pytest.raises(BadInput, match="needs etp = tp"):
        run(TED.limit_cases.scenario, {"plan": {"sp": True}})
