"""Papers of serving: what holds with the settings fixed beforehand, and what must hold whatever they are."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from reproduced_claims import claims_of

from windtunnel_lab.papers.fastgen_splitfuse import experiment as fastgen
from windtunnel_lab.reproduce.claims import holds

KNOWN_MISSES = {
    "fastgen-splitfuse/throughput/vllm",
    "fastgen-splitfuse/throughput/ratio",
    "fastgen-splitfuse/latency/ratio",
    "tokenweave/latency",
    "nanoflow/optimal",
    "nanoflow/tensorrt-llm",
    "nanoflow/vllm",
    "lamina/context",
    "ets/cache",
}
"""Claims that the simulator does not reach with the settings fixed beforehand. Shrink this set, never hide in it."""


SLOW = ("ets", "fastgen_splitfuse", "nanoflow", "tokenweave")


@pytest.mark.parametrize(
    "paper", ["dsi", "mirror_sd", "lamina", *(pytest.param(p, marks=pytest.mark.slow) for p in SLOW)]
)
def test_misses_are_the_known_ones_and_say_what_is_missing(paper: str) -> None:
    experiment = import_module(f"windtunnel_lab.papers.{paper}.experiment")
    setting = experiment.EXPERIMENT.setting
    found = {c.id: c for c in claims_of(paper)}
    assert len(found) == len(experiment.measures())
    for key in experiment.measures():
        claim, result = setting["claims"][key], found[f"{paper.replace('_', '-')}/{key}"]
        assert result.within == holds(claim["within"], result.simulated, float(claim["published"])), key
        assert result.within != (result.id in KNOWN_MISSES), (key, result.simulated)
        assert result.within or claim["missing"], key
        assert "sweep" not in claim or set(claim["sweep"]) <= set(setting["open"]), key


def test_an_even_pace_holds_where_one_long_gap_does_not() -> None:
    even, gap = np.full(60, 0.1), np.full(60, 0.02)
    gap[30] = 3.0
    assert fastgen.steady(even, 0.25) and not fastgen.steady(gap, 0.25)
    assert not fastgen.steady(even, 0.09) and fastgen.steady(np.zeros(0), 0.1)


def test_gaps_between_tokens_add_up_to_the_time_of_answers() -> None:
    values = fastgen.EXPERIMENT.setting["open"]
    result = fastgen.run_of(fastgen.SPLIT, 4, {name: item["central"] for name, item in values.items()})
    assert result.record is not None
    q = result.record.requests
    for i, times in enumerate(fastgen.gaps(result)):
        assert len(times) == q.output_tokens[i] - 1
        assert times.sum() == pytest.approx(q.finish_s[i] - q.first_token_s[i])


LONGER = ["apex", "cloudmatrix384", "sglang_wide_ep", "idealized_runtime", "lamina", "semi_pd"]


@pytest.mark.parametrize("paper", LONGER)
def test_settings_are_whole(paper: str) -> None:
    """Experiments that take longer than a unit test: every claim is measured, sourced, and swept over what is open."""
    experiment = import_module(f"windtunnel_lab.papers.{paper}.experiment")
    setting = experiment.EXPERIMENT.setting
    assert list(experiment.measures()) == list(setting["claims"])
    for name, item in setting["open"].items():
        assert item["low"] <= item["central"] <= item["high"] and item["source"], name
    for name, item in setting["fixed"].items():
        assert item["source"], name
    for key, claim in setting["claims"].items():
        assert claim["source"] and claim["within"] and set(claim.get("sweep", ())) <= set(setting["open"]), key
