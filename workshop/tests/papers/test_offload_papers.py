"""Papers of memory tiers: every claim is measured, and what they rest on comes out as it must."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from windtunnel_lab.reproduce.settings import central

PAPERS = (
    "zero_infinity",
    "fuyou",
    "patrickstar",
    "deep_optimizer_states",
    "pytorch_fsdp",
    "simplefsdp",
    "frontier_zero_topo",
    "distzo2",
    "smallthinker",
)


def experiment(name: str) -> Any:
    """The module of a paper."""
    return importlib.import_module(f"windtunnel_lab.papers.{name}.experiment")


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_is_measured_and_sweeps_what_is_open(name: str) -> None:
    one = experiment(name)
    setting = one.EXPERIMENT.setting
    assert list(one.measures()) == list(setting["claims"])
    for claim in setting["claims"].values():
        assert set(claim.get("sweep", ())) <= set(setting["open"])
        assert claim["source"] and claim["within"]


def test_swapping_beats_recomputing_where_drives_are_fast_and_not_where_they_are_slow() -> None:
    fuyou = experiment("fuyou")
    values = central(fuyou.EXPERIMENT.setting)
    swapped, again = (fuyou.fuyou("13b", 64, share, values).step_time_s for share in (1.0, 0.0))
    assert swapped < 0.9 * again
    slow = values | {"drives": 1}
    swapped, again = (fuyou.fuyou("13b", 64, share, slow).step_time_s for share in (1.0, 0.0))
    assert swapped > again


def test_zero_infinity_gains_from_sequences_and_loses_by_updates_in_turn() -> None:
    fuyou = experiment("fuyou")
    values = central(fuyou.EXPERIMENT.setting)
    rates = [fuyou.tflops(fuyou.zero_infinity("13b", batch, values)) for batch in (8, 16, 32)]
    assert rates == sorted(rates)
    piped = fuyou.tflops(fuyou.zero_infinity("13b", 8, values | {"zero_update": "pipelined"}))
    assert piped > 1.1 * rates[0]


def test_a_small_thinker_is_as_fast_as_its_drive_lets_it() -> None:
    small = experiment("smallthinker")
    values = central(small.EXPERIMENT.setting)
    rates = [small.tokens_per_s("21b", values | {"drive_gb_per_s": rate}) for rate in (1.0, 4.0, 16.0)]
    assert rates == sorted(rates)
