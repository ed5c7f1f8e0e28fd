"""Advice: what is tried, how it is ranked and said, and that it changes with the scenario."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import windtunnel as wt
from windtunnel.advice import Advice, advise
from windtunnel.advice.actions import Action, variants
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.serving.results.residual_bands import paired_band
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.limits import merged

SLOW_LINKS: dict[str, Any] = {
    "name": "dense",
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 4096, "global_batch": 16},
    "plan": {"tp": 8, "overlap": {"tp": False}},
}


@cache
def on_slow_links() -> Advice:
    return advise(SLOW_LINKS, pairs=False)


def _gains(advice: Advice) -> dict[str, float]:
    return {s.names[0]: s.gain for s in advice.suggestions}


def _told(advice: Advice) -> set[str]:
    """Techniques of which it says something."""
    listed = [s for s in (*advice.suggestions, *advice.settings, *advice.unlike) if s.summary]
    alike = (words.split()[0] for s in (*listed, *advice.settings) for words in s.alike)
    ids = {*(s.names[0] for s in listed), *alike, *advice.lost, *advice.refused, *advice.unfit}
    return ids & set(REGISTRY.list())


@pytest.mark.slow
def test_gains_are_those_of_a_run_by_hand() -> None:
    advice = on_slow_links()
    one = next(s for s in advice.suggestions if s.names == ("tp-overlap",))
    before = wt.simulate_training(SLOW_LINKS)
    after = wt.simulate_training(merged(SLOW_LINKS, one.scenario))
    assert advice.value == before.step_time_s and one.value == after.step_time_s
    assert one.gain == pytest.approx(before.step_time_s / after.step_time_s - 1)
    assert one.low <= one.gain <= one.high and one.level == 0.8
    name, old, new = one.moved[0]
    assert (old, new) == (pytest.approx(before.breakdown[name]), pytest.approx(after.breakdown.get(name, 0.0)))


def test_techniques_that_the_scenario_has_in_vain_are_noted() -> None:
    advice = advise(merged(SLOW_LINKS, {"techniques": ["splitwise", "tp-overlap"]}), pairs=False)
    assert [n for n in advice.notes if "splitwise" in n] == [
        "technique splitwise of the scenario does nothing here: it acts on serving alone"
    ]
    assert not any("tp-overlap" in n for n in advice.notes)


def test_best_first_and_every_technique_is_accounted_for() -> None:
    advice = advise(SLOW_LINKS)
    gains = [s.gain for s in advice.suggestions]
    assert gains == sorted(gains, reverse=True) and min(gains) > 0
    assert _told(advice) == set(REGISTRY.list())


def test_overlap_gains_more_on_slow_links_and_nothing_without_them() -> None:
    slow = _gains(on_slow_links())["tp-overlap"]
    one = merged(SLOW_LINKS, {"plan": {"tp": 1}, "cluster": {"devices_per_node": 1}})
    alone = advise(one | {"cluster": {"device": "b200-sxm-180gb", "nodes": 1, "devices_per_node": 1}}, pairs=False)
    assert slow > 0.05
    assert "tp-overlap" in alone.unfit and "tp-overlap" not in _gains(alone)


@pytest.mark.slow
def test_what_does_not_fit_is_first_made_to_fit() -> None:
    tight = merged(SLOW_LINKS, {"plan": {"tp": 1, "zero": 3, "mbs": 2}, "training": {"seq_len": 16384}})
    tight["training"]["global_batch"] = 32
    advice = advise(tight)
    assert not advice.fits
    named = [*advice.settings, *advice.suggestions]
    assert named and any(s.fits for s in named)
    firsts = [s for s in advice.settings if s.names == ("recompute full",)]
    assert firsts and firsts[0].fits and firsts[0].memory_change_bytes is not None
    assert firsts[0].memory_change_bytes < 0


def test_objectives_and_their_names() -> None:
    memory = advise(SLOW_LINKS, objective="memory", pairs=False)
    assert memory.objective.figure == "peak_memory_reserved_bytes"
    assert all(s.memory_change_bytes is not None and s.memory_change_bytes < 0 for s in memory.settings)
    with pytest.raises(BadInput, match="must be one of time, memory, energy, money for training"):
        advise(SLOW_LINKS, objective="tpot")


def test_knobs_are_tried_away_from_their_defaults() -> None:
    one = REGISTRY.get("tp-overlap")
    tried = list(variants(Action(one.id, one)))
    assert tried and all(len(a.knobs) == 1 for a in tried)
    for action in tried:
        ((name, value),) = action.knobs.items()
        assert one.knobs[name].problem(value) is None and value != one.knobs[name].default


def test_bands_of_serving_come_from_pairs_of_rows() -> None:
    band = paired_band("tpot")
    assert band is not None and band.low < 1 < band.high
    assert band.low == pytest.approx(1 / band.high, rel=0.02)  # each pair counts both ways round


SERVED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 1},
    "serving": {
        "engine": "vllm",
        "traffic": {"concurrency": 32, "num_requests": 64, "input_tokens": 512, "output_tokens": 64},
    },
}


@pytest.mark.slow
def test_advice_for_serving() -> None:
    advice = advise(SERVED, pairs=False)
    assert advice.objective.id == "throughput" and advice.value > 0
    assert _told(advice) == set(REGISTRY.list())


@pytest.mark.slow
def test_the_verb_writes_a_scenario_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "a.json", tmp_path / "b.yaml"
    source.write_text(json.dumps(SLOW_LINKS))
    assert run(["advise", str(source), "--no-pairs", "--write", str(target)]) == 0
    out = capsys.readouterr().out
    assert "tp-overlap" in out and "exposed tp" in out
    best = wt.simulate_training(str(target))
    assert best.step_time_s < wt.simulate_training(SLOW_LINKS).step_time_s
    assert run(["advise", str(source), "--objective", "tmie"]) == 2
    assert "did you mean time?" in capsys.readouterr().err


@pytest.mark.slow
def test_report_and_references_hold_every_suggestion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, report, papers = tmp_path / "a.json", tmp_path / "r.html", tmp_path / "p.bib"
    source.write_text(json.dumps(SLOW_LINKS | {"name": "<b>named</b>"}))
    assert run(["advise", str(source), "--no-pairs", "--report", str(report), "--cite", str(papers)]) == 0
    page, cited = report.read_text("utf-8"), papers.read_text("utf-8")
    assert "&lt;b&gt;named" in page and "<b>named" not in page.split("</header>")[0]
    advice = on_slow_links()
    for one in (*advice.suggestions, *advice.unlike):
        assert one.names[0] in page
        assert REGISTRY.get(one.names[0]).paper.link in cited
    assert "No gain here" in capsys.readouterr().out


def test_facts_and_switches_of_quality_are_left_alone() -> None:
    lamina, megascale, compress = (REGISTRY.get(name) for name in ("lamina", "megascale", "powersgd"))
    assert not {"nic_gbit", "count"} & {k for a in variants(Action("lamina", lamina)) for k in a.knobs}
    assert not list(variants(Action("powersgd", compress)))
    plain = Action("megascale", megascale, dict(megascale.lossless))
    assert plain.lossless and not Action("megascale", megascale).lossless
    assert all(a.lossless for a in variants(plain)) and list(variants(plain))


@pytest.mark.slow
def test_sizes_that_do_not_divide_are_tried_smaller() -> None:
    small = merged(SLOW_LINKS, {"plan": {"tp": 2}})
    advice = advise(small, pairs=False)
    assert "mics" not in advice.refused  # groups of 8 do not divide 4 replicas, groups of 4 do


def test_long_traffic_is_shortened_and_said_so() -> None:
    long = merged(SERVED, {"serving": {"traffic": {"num_requests": 50_000, "output_tokens": 2}}})
    advice = advise(long, pairs=False)
    assert advice.result.scenario["serving"]["traffic"]["num_requests"] == 1000
    assert any("first 1,000 of 50,000" in line for line in advice.notes)
