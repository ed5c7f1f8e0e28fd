"""Algorithms that advice names over slow links carry their price in loss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from windtunnel import catalog
from windtunnel.advice import learning
from windtunnel.advice.suggestion import Suggestion
from windtunnel.specs.cluster import ClusterRef

ONE = Suggestion(
    names=("diloco",),
    words="diloco",
    kind="unlike",
    gain=2.0,
    low=1.0,
    high=3.0,
    level=0.8,
    told_apart=True,
    basis="",
    value=1.0,
    fits=True,
    memory_change_bytes=None,
    moved=(),
    scenario={"techniques": [{"diloco": {"period": 10}}]},
    quality="loss rises",
)


def cluster(gbit: str) -> Any:
    scale_out = {"nics_per_node": 1, "nic_bytes_per_s": gbit, "latency_s": "20 ms", "family": "ethernet"}
    ref = {"device": "h100-sxm-80gb", "nodes": 4, "devices_per_node": 8, "scale_out": scale_out}
    return catalog.resolve_cluster(ClusterRef.model_validate(ref))


def test_a_price_over_slow_links_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDTUNNEL_CACHE", str(tmp_path))
    monkeypatch.setattr(learning, "_TASK", {"task": "quadratic", "workers": 2, "steps": 40, "gate": False})
    slow, fast = cluster("10 Gb/s"), cluster("400 Gb/s")
    (priced,) = learning.priced_in_loss((ONE,), slow)
    assert (
        priced.quality.startswith("loss rises; on a small language task its loss ends ") and "assumed" in priced.quality
    )
    assert learning.priced_in_loss((ONE,), fast) == (ONE,)
    worse, other = replace(ONE, gain=-0.1), replace(ONE, scenario={"techniques": ["mscclpp"]})
    assert learning.priced_in_loss((worse, other), slow) == (worse, other)
