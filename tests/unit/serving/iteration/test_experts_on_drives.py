"""Experts on drives while serving: what is read, when, and what memory it leaves."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.techniques.limits import merged

CASE = {
    "model": "Qwen/Qwen3-30B-A3B",
    "cluster": {"device": "cpu-laptop", "nodes": 1, "devices_per_node": 1, "memory_bytes": "32 GiB"},
    "serving": {
        "engine": "generic",
        "precision": {"weights": "w4a16"},
        "pools": [{"limits": {"max_num_seqs": 1}}],
        "traffic": {"offline": True, "num_requests": 1, "input_tokens": 512, "output_tokens": 16},
    },
}
EXPERT_BYTES = 3 * 2048 * 768 * (0.5 + 2.0 / 128)
RATE = 5e9


def run(storage: dict[str, Any] | None, techniques: tuple[Any, ...] = ()) -> Any:
    """One answer."""
    change = {"serving": {"expert_storage": storage}} if storage else {}
    return api.simulate_serving(merged(CASE, change) | {"techniques": list(techniques)})


def test_missing_experts_are_read_one_token_at_a_time() -> None:
    inside = run(None)
    for cached in (0.9, 0.5):
        away = run({"cached": cached, "bytes_per_s": RATE})
        read_s = 48 * 8 * EXPERT_BYTES * (1 - cached) / RATE
        assert away.tpot_s.mean - inside.tpot_s.mean == pytest.approx(read_s, rel=0.02)
        assert away.capacity["weights_bytes"] == pytest.approx(
            inside.capacity["weights_bytes"] - (1 - cached) * 48 * 128 * EXPERT_BYTES, rel=1e-6
        )
        assert away.capacity["tokens"] > inside.capacity["tokens"]


def test_hits_say_how_many_are_found() -> None:
    even, often = run({"cached": 0.5, "bytes_per_s": RATE}), run({"cached": 0.5, "hits": 0.8, "bytes_per_s": RATE})
    inside = run(None).tpot_s.mean
    assert often.tpot_s.mean - inside == pytest.approx(0.4 * (even.tpot_s.mean - inside), rel=0.02)


def test_an_early_router_hides_reads_behind_attention_and_no_more() -> None:
    storage = {"cached": 0.9, "bytes_per_s": RATE}
    late, early, inside = run(storage), run(storage, ("smallthinker",)), run(None)
    assert inside.tpot_s.mean <= early.tpot_s.mean < late.tpot_s.mean
    slow = {"cached": 0.9, "bytes_per_s": RATE / 100}
    read_s = 48 * 8 * EXPERT_BYTES * 0.1 / (RATE / 100)
    assert run(slow, ("smallthinker",)).tpot_s.mean >= 0.999 * read_s  # never faster than the drive


def test_a_dense_model_has_no_experts_to_store() -> None:
    dense = merged(CASE, {"model": "Qwen/Qwen3-4B"})
    stored = merged(dense, {"serving": {"expert_storage": {"cached": 0.1, "bytes_per_s": 1e9}}})
    assert api.simulate_serving(stored).tpot_s.mean == api.simulate_serving(dense).tpot_s.mean
