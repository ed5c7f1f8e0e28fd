"""Weights that are skipped while serving, and the format of embedding and head."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel import api
from windtunnel.errors import WindtunnelError
from windtunnel.techniques.limits import merged

DENSE = {
    "name": "one",
    "family": "dense",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "intermediate_size": 8192,
    "vocab_size": 128000,
    "hidden_act": "relu",
    "tie_word_embeddings": True,
}
CASE = {
    "model": DENSE,
    "cluster": {"device": "cpu-laptop", "nodes": 1, "devices_per_node": 1},
    "serving": {
        "engine": "generic",
        "pools": [{"limits": {"max_num_seqs": 1}}],
        "traffic": {"offline": True, "num_requests": 1, "input_tokens": 64, "output_tokens": 16},
    },
}
MLP, HEAD = 16 * 2048 * 8192 * 2.0, 128000 * 2048 * 2.0


def run(change: dict[str, Any] | None = None, model: dict[str, Any] | None = None) -> Any:
    """One answer."""
    return api.simulate_serving(merged(merged(CASE, {"serving": change or {}}), {"model": model or {}}))


def per_byte() -> float:
    """Seconds a byte of weights, from a head of half the bytes."""
    return (run().tpot_s.mean - run({"precision": {"ends": "int8"}}).tpot_s.mean) / (0.5 * HEAD)


def test_nothing_skipped_is_the_same() -> None:
    assert run({"sparse_reads": {}}).tpot_s.mean == run().tpot_s.mean
    assert run({"precision": {"ends": "bf16"}}).tpot_s.mean == run().tpot_s.mean


@pytest.mark.parametrize("gated", [True, False])
def test_zeros_save_the_rows_behind_the_activation(gated: bool) -> None:
    model, share = {"gated_mlp": gated}, 0.25
    plain, sparse = run(None, model), run({"sparse_reads": {"neurons": share}}, model)
    rows = 2 if gated else 1  # up and down, or down alone
    saved = plain.tpot_s.mean - sparse.tpot_s.mean
    assert saved == pytest.approx(rows * MLP * (1 - share) * per_byte(), rel=0.03)


def test_many_tokens_need_nearly_all_rows() -> None:
    sparse = {"sparse_reads": {"neurons": 0.25}, "traffic": {"num_requests": 32}, "pools": [{}]}
    plain = {"traffic": {"num_requests": 32}, "pools": [{}]}
    assert run(sparse).tpot_s.mean > 0.98 * run(plain).tpot_s.mean


def test_a_predictor_chooses_rows_of_the_head_and_is_read_itself() -> None:
    predictor, plain = 2.0 * 128 * (2048 + 128000), run()
    few, half = (run({"sparse_reads": {"head": share, "predictor_rank": 128}}) for share in (0.1, 0.5))
    saved = [plain.tpot_s.mean - one.tpot_s.mean for one in (few, half)]
    assert saved[0] / saved[1] == pytest.approx((0.9 * HEAD - predictor) / (0.5 * HEAD - predictor), rel=0.01)
    assert few.capacity["weights_bytes"] - plain.capacity["weights_bytes"] == pytest.approx(predictor)


def test_ends_in_four_bits_take_less_memory() -> None:
    small = run({"precision": {"ends": "q4_0"}})
    assert run().capacity["weights_bytes"] - small.capacity["weights_bytes"] == pytest.approx((1 - 0.5625 / 2) * HEAD)


@pytest.mark.parametrize(
    ("change", "model", "field"),
    [
        ({"sparse_reads": {"neurons": 0.3}}, {"hidden_act": "silu"}, "sparse_reads.neurons"),
        ({"sparse_reads": {"head": 0.1, "predictor_rank": 64}, "pools": [{}]}, {}, "limits.max_num_seqs"),
        ({"sparse_reads": {"head": 0.1}}, {}, "predictor_rank"),
    ],
)
def test_what_cannot_be_skipped_is_refused(change: dict[str, Any], model: dict[str, Any], field: str) -> None:
    with pytest.raises(WindtunnelError, match=field):
        run(change, model)
