"""Published orderings: complete settings, named misses, a fast share of the claims; test-long runs them all."""

from __future__ import annotations

import re
from types import ModuleType

import pytest
from reproduced_claims import claims_of

from windtunnel_lab.papers.frontier_3d import experiment as frontier_3d
from windtunnel_lab.papers.galvatron import experiment as galvatron
from windtunnel_lab.papers.holmes import experiment as holmes
from windtunnel_lab.papers.megatron_3d import experiment as megatron_3d
from windtunnel_lab.papers.pipette import experiment as pipette
from windtunnel_lab.reproduce import claims
from windtunnel_lab.reproduce.settings import central

PAPERS: dict[str, ModuleType] = {
    "megatron-3d": megatron_3d,
    "frontier-3d": frontier_3d,
    "galvatron": galvatron,
    "pipette": pipette,
    "holmes": holmes,
}
FAST = {
    "megatron-3d": (
        "tp-pp/best-tp/b32",
        "tp-pp/best-tp/b128",
        "tp-pp/outside-node",
        "tp-pp/more-stages",
        "mbs/best/b128",
        "interleaving/small-batch",
        "interleaving/shrinks",
        "table-1/1t",
        "table-2/zero3/175b-1536",
    ),
    "frontier-3d": ("rate/22b", "tp/falls", "bubble/stages", "bubble/kept", "compute"),
    "galvatron": ("hybrid/three-dimensions",),
    "pipette": ("attained/a100", "manual/a100", "uneven/straggler", "uneven/assignment"),
}
"""Claims whose central value is simulated with every run of the tests."""
COMES_OUT = {"megatron-3d/mbs/best/b512"}
"""Claims that are inside although their text still says what is missing."""


def fast_claims() -> list[tuple[str, str]]:
    return [(paper, key) for paper, keys in FAST.items() for key in keys]


@pytest.mark.parametrize(("paper", "key"), fast_claims())
def test_central_value_is_inside_or_a_named_miss(paper: str, key: str) -> None:
    setting = PAPERS[paper].EXPERIMENT.setting
    claim = setting["claims"][key]
    value = PAPERS[paper].measures()[key](central(setting))
    assert claims.holds(claim["within"], value, claim["published"]) is ("missing" not in claim), value


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_is_inside_or_a_named_miss(paper: str) -> None:
    results = claims_of(paper.replace("-", "_"))
    assert [r.id for r in results] == [f"{paper}/{key}" for key in PAPERS[paper].measures()]
    for result in results:
        claim = PAPERS[paper].EXPERIMENT.setting["claims"][result.id.removeprefix(f"{paper}/")]
        assert result.low <= result.simulated <= result.high, result.id
        named = any(note.startswith("missing: ") and len(note) > 30 for note in result.assumptions)
        assert named is not result.within, result.id
        assert result.within is ("missing" not in claim) or result.id in COMES_OUT, result.id
        assert claim["source"] and claim["text"]


@pytest.mark.parametrize("paper", PAPERS)
def test_settings_are_complete(paper: str) -> None:
    setting = PAPERS[paper].EXPERIMENT.setting
    assert set(setting["claims"]) == set(PAPERS[paper].measures())
    assert re.match(r"https://", setting["paper"]["link"])
    assert isinstance(setting["changes"], list)
    for name, item in setting["open"].items():
        assert item["source"], name
        assert {"low", "central", "high"} <= set(item), name
    for key, claim in setting["claims"].items():
        assert set(claim.get("sweep", ())) <= set(setting["open"]), key
        assert claim["source"] and claim["within"], key
    assert all(item["source"] for item in setting["fixed"].values())


def test_rules_decide_on_the_central_value_alone() -> None:
    setting = {
        "open": {"x": {"low": 0.0, "central": 1.0, "high": 2.0}},
        "assumptions": "none",
        "claims": {"a": {"text": "x", "published": 1.0, "within": {"absolute": 0.1}, "sweep": ["x"]}},
    }
    hit = claims.result(setting, "p", "a", lambda values: values["x"])
    assert (hit.simulated, hit.low, hit.high, hit.within) == (1.0, 0.0, 2.0, True)
    setting["claims"]["a"]["within"] = {"above": 1.0}  # type: ignore[index]
    miss = claims.result(setting, "p", "a", lambda values: values["x"])
    assert not miss.within and miss.assumptions[-1] == "missing: not found yet"
    assert claims.least_fall([4, 2, 1]) == 2.0 and claims.least_fall([4, 2, 3]) < 1.0
