"""Popularity and locality of experts in training, node-limited routing, compressed exchanges."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.cost.memory_bound import DEPENDENT_LOAD_S
from windtunnel.errors import BadInput
from windtunnel.techniques.limits import merged

CASE: dict[str, Any] = {
    "model": "deepseek-ai/DeepSeek-V2-Lite",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 64, "moe_dispatcher": "deepep"},
    "plan": {"ep": 32, "mbs": 1, "overlap": {"moe_a2a": False}},
}


def run(*changes: Any) -> Any:
    case = CASE
    for change in changes:
        case = merged(case, change)
    return api.simulate_training(case, sensitivities=False)


def exchange(result: Any) -> float:
    return float(result.breakdown["exposed ep"])


def test_popular_experts_make_their_rank_the_slowest() -> None:
    even = run({"training": {"expert_load": {"popularity": 0.0}}})
    skewed = run({"training": {"expert_load": {"popularity": 0.5}}})
    assert run().step_time_s < even.step_time_s < skewed.step_time_s  # chance alone makes ranks unlike
    assert even.step_time_s < 1.1 * run().step_time_s


def test_tokens_that_stay_do_not_travel() -> None:
    half, none = (run({"training": {"expert_load": {"local": share}}}) for share in (0.5, 1.0))
    chance = run({"training": {"expert_load": {"local": 1 / 32}}})
    assert exchange(chance) == pytest.approx(exchange(run()), rel=1e-6)
    assert exchange(none) < exchange(half) < exchange(chance)
    assert half.hfu * half.step_time_s == pytest.approx(chance.hfu * chance.step_time_s)


def test_a_limit_on_nodes_cuts_what_leaves_them() -> None:
    times = [exchange(run({"plan": {"expert_nodes": nodes}})) for nodes in (1, 2, 4)]
    assert times == sorted(times)
    assert times[0] < times[2] == exchange(run())
    plain = run({"plan": {"expert_nodes": 1}, "training": {"moe_dispatcher": "alltoall"}})
    assert any("expert_nodes has no effect" in w for w in plain.warnings)


def test_dense_dispatch_meets_every_place_of_every_expert() -> None:
    """Two products of tokens by places by the hidden width forward, three more backward, in each mixture."""
    permuted, dense = (run({"training": {"moe_dispatcher": name}}) for name in ("alltoall", "einsum"))
    flop = [r.hardware_tflops_per_device * r.step_time_s * 1e12 for r in (permuted, dense)]
    tokens, routed, hidden, mixtures, micro_batches = 4096, 4096 * 6, 2048, 26, 2
    assert flop[1] - flop[0] == pytest.approx(5 * 2 * tokens * routed * hidden * mixtures * micro_batches, rel=1e-6)
    assert permuted.mfu > dense.mfu


def test_a_gate_of_masks_grows_with_the_square_of_tokens() -> None:
    """Each token meets as many places as there are routed rows; positions are added up token by token."""

    def gate_s(seq_len: int) -> float:
        short = {"training": {"seq_len": seq_len, "moe_dispatcher": "einsum"}}
        plain, masks = (run(short, {"training": {"moe_gate": kind}}) for kind in ("fused", "masks"))
        assert masks.hfu * masks.step_time_s == pytest.approx(plain.hfu * plain.step_time_s)
        return float(masks.breakdown["memory bound"] - plain.breakdown["memory bound"])

    mixtures, micro_batches = 26, 2
    loads = mixtures * micro_batches * DEPENDENT_LOAD_S
    times = [gate_s(n) - n * loads for n in (2048, 4096, 8192)]
    assert 1.0 < times[1] / times[0] < times[2] / times[1] < 4.0
    assert gate_s(4096) > 4096 * loads + (18 + 10) * 4096 * 4096 * 6 * mixtures * micro_batches / 3.35e12


def test_masks_of_a_model_without_experts_are_named_as_idle() -> None:
    result = run({"model": "meta-llama/Llama-3.1-8B", "training": {"moe_gate": "masks"}, "plan": {"ep": 1}})
    assert any("moe_gate" in w and "no experts" in w for w in result.warnings)


def test_one_way_to_say_how_uneven_experts_are() -> None:
    with pytest.raises(BadInput, match="leave it out with"):
        run({"training": {"expert_load": {"popularity": 0.3, "imbalance": 1.2}}})


def test_fewer_rows_are_sent_and_computed() -> None:
    plain, hashed = run(), run({"techniques": [{"lsh-moe": {"kept": 0.25}}]})
    assert exchange(hashed) < 0.5 * exchange(plain)
    assert hashed.breakdown["memory bound"] > plain.breakdown["memory bound"]
    assert hashed.mfu > plain.mfu
