"""Every paper's folder is one experiment record: its settings and its measures name the same claims."""

from __future__ import annotations

import pytest

from windtunnel_lab.reproduce import experiment_of, list_papers

OWN_RUN = ("pytorch_ddp", "tp_overlap", "zero_bubble")


@pytest.mark.parametrize("paper", list_papers())
def test_measures_are_those_of_the_stated_claims_in_their_order(paper: str) -> None:
    module = experiment_of(paper)
    assert module.EXPERIMENT.prefix in ("", paper.replace("_", "-"))
    assert module.EXPERIMENT.id == paper and module.EXPERIMENT.setting["paper"]["title"]
    if paper in OWN_RUN:
        assert module.run
    else:
        assert set(module.EXPERIMENT.measures()) <= set(module.EXPERIMENT.setting["claims"])
