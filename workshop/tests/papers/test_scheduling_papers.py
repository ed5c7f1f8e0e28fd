"""Orderings that papers on scheduling must keep whatever the coefficients."""

from __future__ import annotations

from windtunnel_lab.papers.flover import experiment as flover
from windtunnel_lab.reproduce import run_paper
from windtunnel_lab.reproduce.settings import central


def test_fusion_wins_more_the_closer_requests_come() -> None:
    claims = {r.id: r for r in run_paper("flover")}
    assert {r.id for r in claims.values() if not r.within} == set()
    values = central(flover.EXPERIMENT.setting)
    gathered = values | {"window_requests": 4}
    assert flover.speed_up(flover.GPT_J, 500, gathered) < flover.speed_up(flover.GPT_J, 500, values)
