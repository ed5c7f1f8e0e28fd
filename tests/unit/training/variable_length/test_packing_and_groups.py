"""Batches of documents of unlike length: packing, tables, layouts, who waits for whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from windtunnel import api
from windtunnel.errors import BadInput
from windtunnel.specs.batches import DocumentLengths
from windtunnel.techniques.limits import merged
from windtunnel.training.variable_length.packing import packed
from windtunnel.training.variable_length.rank_lanes import coupled
from windtunnel.views.train import documents

CASE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 2, "devices_per_node": 8},
    "training": {"seq_len": 32768, "global_batch": 32},
    "plan": {"cp": 4, "mbs": 1, "zero": 1, "recompute": {"policy": "full"}},
}
LOGNORMAL = {"distribution": "lognormal", "mean": 4000, "cv": 2.0, "batches": 2}


def run(*changes: Any) -> Any:
    case = CASE
    for change in changes:
        case = merged(case, change)
    return api.simulate_training(case, sensitivities=False)


def lengths(**more: Any) -> dict[str, Any]:
    return {"training": {"lengths": LOGNORMAL | more}}


@pytest.mark.parametrize("packing", ["cut", "best_fit", "padded"])
def test_rows_hold_what_they_can(packing: str) -> None:
    spec = DocumentLengths(distribution="lognormal", mean=3000, cv=2.0, packing=packing)
    rows = packed(spec, 8192, 64, np.random.default_rng(3))
    assert (rows.used <= 8192).all()
    assert rows.documents.sum() == pytest.approx(rows.used.sum())
    assert (rows.documents <= 8192).all()
    if packing != "padded":
        assert (rows.documents**2).sum() == pytest.approx(rows.squares.sum())
        assert rows.used.sum() > 0.95 * 64 * 8192
    if packing == "cut":
        assert (rows.used == 8192).all()


@pytest.mark.parametrize("length", [256, 1024, 4096, 16384])
@pytest.mark.parametrize("nodes", [2, 8])
def test_documents_of_one_length_are_what_one_mean_length_is(length: int, nodes: int) -> None:
    """These lengths lie between those of the table; on eight nodes the ring crosses nodes and is waited for."""
    where = {"cluster": {"nodes": nodes}, "plan": {"cp": 2 * nodes}}
    alike = run(where, {"training": {"lengths": {"distribution": "fixed", "mean": length}}})
    mean = run(where, {"training": {"mean_document_length": length}})
    assert alike.step_time_s == pytest.approx(mean.step_time_s, rel=0.01)
    assert alike.hfu == pytest.approx(mean.hfu, rel=0.01)


def test_rows_of_one_document_are_todays_step() -> None:
    whole = run({"training": {"lengths": {"distribution": "fixed", "mean": 32768}}})
    assert whole.step_time_s == pytest.approx(run().step_time_s, rel=1e-9)


def test_replicas_wait_for_the_one_with_most_work() -> None:
    drawn, dealt = run(lengths()), run(lengths(order="by_work"))
    assert drawn.lengths["slowest_over_mean"] > dealt.lengths["slowest_over_mean"] > 1.0
    assert dealt.step_time_s < drawn.step_time_s
    shared = run(lengths(), {"plan": {"zero": 3}})
    alone = run({"training": {"mean_document_length": 4096}}, {"plan": {"zero": 3}})
    base = run({"training": {"mean_document_length": 4096}})
    # sharded parameters: replicas meet in every micro-batch and wait more often
    assert shared.step_time_s / alone.step_time_s > drawn.step_time_s / base.step_time_s
    assert shared.lengths["lanes_that_meet"] == 4


def test_lanes_that_meet_take_the_slowest_of_each_micro_batch() -> None:
    lanes = np.array([[1.0, 4.0], [3.0, 2.0], [1.0, 1.0], [2.0, 1.0]])[:, :, None, None]
    assert coupled(lanes, 1) is lanes
    met = coupled(lanes, 2)[:, :, 0, 0]
    assert met.tolist() == [[3, 4], [3, 4], [2, 1], [2, 1]]


@pytest.mark.parametrize("groups", ["by_length", "solved", "zones"])
def test_every_layout_trains_the_same_tokens_and_none_beats_the_products(groups: str) -> None:
    fixed = run(lengths(batches=1))
    other = run(lengths(batches=1), {"plan": {"sequence_groups": groups}})
    assert other.lengths["tokens"] == fixed.lengths["tokens"]
    assert sum(other.lengths["ranks_of_a_sequence"].values()) == pytest.approx(1.0)
    assert other.lengths["ranks_of_a_sequence"]["1"] > 0.1
    assert other.hfu < 0.75
    for r in (fixed, other):
        assert sum(r.breakdown.values()) == pytest.approx(r.step_time_s, rel=1e-6)


def test_a_result_says_what_its_documents_are() -> None:
    said = dict(documents(run(lengths(), {"plan": {"zero": 3}}).lengths))
    assert said["waiting"] == "4 meet in every micro-batch"
    assert said["ranks that share a document"] == "4"
    assert "padding" in said["tokens of documents"]
    assert documents(run().lengths) == []


def test_a_pipeline_takes_unlike_micro_batches() -> None:
    piped = run(lengths(), {"plan": {"pp": 2, "cp": 2, "vpp": 2}})
    assert piped.breakdown["bubble"] > 0
    groups = run(lengths(), {"plan": {"pp": 2, "cp": 2, "vpp": 2, "sequence_groups": "by_length"}})
    assert groups.num_micro_batches % 2 == 0


def test_what_does_not_read_lengths_says_so() -> None:
    case = merged(CASE, lengths())
    with pytest.raises(BadInput, match="does not read them yet"):
        api.plan(case)
    with pytest.raises(BadInput, match="with lengths"):
        run(lengths(), {"training": {"mean_document_length": 512}})
    with pytest.raises(BadInput, match="no inner axis"):
        run(lengths(), {"plan": {"cp_kind": "hybrid", "cp_all_to_all": 2, "sequence_groups": "zones"}})
    assert any("sequence_groups has no effect" in w for w in run({"plan": {"sequence_groups": "zones"}}).warnings)
