"""Scenarios written in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

import windtunnel as wt

KEYWORDS = {"model": "Qwen/Qwen3-8B", "device": "h100-sxm-80gb", "nodes": 1, "seq_len": 4096, "global_batch": 64}


def test_keywords_make_the_scenario_that_a_file_would() -> None:
    data = {
        "model": "Qwen/Qwen3-8B",
        "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 64},
        "plan": {"tp": 2},
    }
    assert wt.scenario(**KEYWORDS, tp=2).resolved() == wt.load_scenario(data)


def test_a_prediction_equals_that_of_the_file(tmp_path: Path) -> None:
    draft = wt.scenario(**KEYWORDS, tp=2)
    assert draft.predict().step_time_s == wt.simulate_training(draft.save(tmp_path / "s.yaml")).step_time_s


def test_with_changes_a_copy() -> None:
    draft = wt.scenario(**KEYWORDS, tp=2)
    other = draft.with_("plan.mbs=2", tp=4)
    assert other.resolved().plan.tp == 4 and other.resolved().plan.mbs == 2
    assert draft.resolved().plan.tp == 2


def test_sections_are_taken_as_mappings() -> None:
    draft = wt.scenario(**KEYWORDS).with_(plan={"tp": 2}).with_(plan={"pp": 2})
    assert (draft.resolved().plan.tp, draft.resolved().plan.pp) == (2, 2)


def test_unknown_keywords_are_reported_together() -> None:
    with pytest.raises(wt.BadInput) as caught:
        wt.scenario(modle="x", tpp=2)
    assert [p.nearest for p in caught.value.problems] == ["model", "tp"]


def test_files_are_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,'
        ' "intermediate_size": 128, "vocab_size": 256}'
    )
    (tmp_path / "s.yaml").write_text(
        "model: {config: config.json}\ncluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 1}\n"
        "training: {seq_len: 64, global_batch: 2}\n"
    )
    assert wt.scenario(tmp_path / "s.yaml").predict().step_time_s > 0


def test_the_text_of_a_draft_is_short() -> None:
    text = repr(wt.scenario(**KEYWORDS, tp=2))
    assert text == "scenario: Qwen/Qwen3-8B on 8 x h100-sxm-80gb; training seq_len 4096, global_batch 64; plan tp 2"
