"""Claims on scaling laws and test-time compute: complete settings, named misses, what they are made of."""

from __future__ import annotations

import math
import re

import pytest
from reproduced_claims import claims_of

from windtunnel_lab.models.learning.performance_profiles import profile, ratios, scores
from windtunnel_lab.papers.confidence_limiting_passn.experiment import pass_at, weight
from windtunnel_lab.papers.kinetics import experiment as kinetics
from windtunnel_lab.papers.mrt.experiment import closed, curve, regret
from windtunnel_lab.papers.parscale import experiment as parscale
from windtunnel_lab.reproduce import experiment_of, folders
from windtunnel_lab.reproduce.device_steps import answer_s, capacity, decode_s, prompt_s, token_flop
from windtunnel_lab.reproduce.pages.claims_page import LATER, MADE
from windtunnel_lab.reproduce.settings import central, load

PAPERS = folders(acts_on="laws")
SLOW = {"algoperf", "confidence_limiting_passn"}
"""They learn for ten seconds."""
MISSES = {
    "composition_of_experts": {"arena", "bench"},
    "efficient_agents": {"of-tasks", "of-passes", "retained"},
    "kinetics": {"threshold"},
    "languini": {"crossing"},
    "muon_mla_moe": {"speed"},
    "parscale": {"memory"},
}
"""Claims that do not come out. Shrink this, never hide in it."""


@pytest.mark.parametrize("paper", [pytest.param(p, marks=[pytest.mark.slow] if p in SLOW else []) for p in PAPERS])
def test_claims_come_out_but_for_named_misses(paper: str) -> None:
    found = claims_of(paper)
    stated = load(f"windtunnel_lab.papers.{paper}")["claims"]
    assert [c.id.partition("/")[2] for c in found] == list(stated) == list(experiment_of(paper).measures())
    assert {c.id.partition("/")[2] for c in found if not c.within} == MISSES.get(paper, set())
    for claim in found:
        assert claim.low <= claim.simulated <= claim.high
        assert claim.within or len(claim.missing) > 30
        entry = stated[claim.id.partition("/")[2]]
        assert claim.within or "missing" in entry


@pytest.mark.parametrize("paper", PAPERS)
def test_settings_are_complete(paper: str) -> None:
    setting = load(f"windtunnel_lab.papers.{paper}")
    assert re.match(r"https://arxiv.org/abs/", setting["paper"]["link"])
    assert isinstance(setting["changes"], list) and setting["assumptions"]
    for item in (*setting["open"].values(), *setting["fixed"].values()):
        assert item["source"]
    for item in setting["open"].values():
        assert {"low", "central", "high"} <= set(item)
    for claim in setting["claims"].values():
        assert claim["text"] and claim["source"] and set(claim.get("sweep", ())) <= set(setting["open"])
        assert claim.get("holds", MADE) in (MADE, LATER)


def test_profiles_are_steps_and_scores_the_area_below_them() -> None:
    times = {"x": {"a": 10.0, "b": 20.0}, "y": {"a": math.inf, "b": 5.0}, "z": {"a": 1.0, "b": 4.5}}
    of = ratios(times)
    assert of["a"] == {"x": 1.0, "y": math.inf, "z": 1.0} and of["b"] == {"x": 2.0, "y": 1.0, "z": math.inf}
    steps = 30_000
    for name, score in scores(times).items():
        area = sum(profile(of[name], 1.0 + 3.0 * (k + 0.5) / steps) for k in range(steps)) / steps
        assert score == pytest.approx(area, abs=1e-4)
    assert scores({"x": {"a": math.inf, "b": math.inf}}) == {"a": 0.0, "b": 0.0}


def test_the_graph_counts_a_token_as_twice_its_weights_and_attention_by_heads() -> None:
    linear, attention = token_flop("Qwen/Qwen3-0.6B", "a100-sxm-80gb")
    held = capacity("Qwen/Qwen3-0.6B", "a100-sxm-80gb")
    assert linear == pytest.approx(held.weights_bytes, rel=0.001)  # two FLOP and two bytes a weight; tied head
    assert attention == 28 * 2 * 16 * (128 + 128)
    assert held.bytes_per_token == 28 * 2 * 8 * 128 * 2


def test_steps_add_up_to_answers_and_share_weights() -> None:
    model, device = "Qwen/Qwen3-8B", "a100-sxm-80gb"
    one, eight = (decode_s(model, device, n, 512) for n in (1, 8))
    assert one < eight < 2 * one
    told = prompt_s(model, device, 100) + 50 * decode_s(model, device, 1, 125)
    assert answer_s(model, device, 100, 50) == pytest.approx(told)


def test_published_sizes_of_streams_are_solved_exactly() -> None:
    counts = [535813376, 693753856, 1088376320, 1571472384, 2774773760, 4353203200]
    assert [parscale.parameters(place) for place in range(6)] == counts


def test_one_stream_is_the_model_itself() -> None:
    assert parscale.seconds(3, 4, 1) == parscale.seconds(3, 4)
    assert parscale.nbytes(3, 1, 8) > parscale.nbytes(3, 1)


def test_equivalent_flop_without_bytes_are_flop() -> None:
    generated = central(kinetics.EXPERIMENT.setting)["generated"]
    for one in kinetics.choices(generated):
        assert one.eflop > one.flop
    kept = kinetics.front(generated, "flop")
    assert [c.flop for c in kept] == sorted(c.flop for c in kept)
    assert [c.coverage for c in kept] == sorted(c.coverage for c in kept)


def test_the_loss_of_one_sample_is_cross_entropy() -> None:
    import numpy as np

    right = np.array([0.01, 0.3, 0.9])
    assert weight(right, 1) == pytest.approx(np.ones(3))
    step = 1e-6
    for n in (2, 16):
        slope = (np.log(-np.expm1(n * np.log1p(-(right + step)))) - np.log(-np.expm1(n * np.log1p(-right)))) / step
        assert weight(right, n) == pytest.approx(slope * right, rel=1e-4)  # of ln p: times p
    assert pass_at(right[:1], 2) == pytest.approx(1 - 0.99**2)


def test_regret_of_certain_success_is_nothing() -> None:
    assert regret(curve(1.0, 5)) == 0.0
    assert regret(curve(0.5, 2)) == pytest.approx(0.75) == pytest.approx(closed(0.5, 2))
