"""The open serving rows, where they are at hand: expressed, deaf to outcomes, and as near as the page says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from windtunnel.validation.predict.report import RowOutcome
from windtunnel.validation.predict.validate import validate
from windtunnel.validation.rows.parsing.serving import read_serving

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = [
    pytest.mark.validation,
    pytest.mark.skipif(not DATA.is_dir(), reason="the open rows are not beside the checkout"),
]


def rows() -> list[dict[str, Any]]:
    data: list[dict[str, Any]] = json.loads((DATA / "serving.json").read_text("utf-8"))
    return data


def test_nineteen_in_twenty_rows_are_scenarios() -> None:
    found = [read_serving(row) for row in rows()]
    assert np.mean([f.scenario is not None for f in found]) >= 0.95
    assert all(f.scenario is not None or f.reason for f in found)


def test_scenarios_are_deaf_to_identity_and_outcome() -> None:
    for row in rows():
        other = {**row, "id": "x", "source": "elsewhere", "note": "n", "licence": "l", "spread": {"a": 2.0}}
        other["metrics"] = {name: 7.0 for name in row["metrics"]}
        assert read_serving(other) == read_serving(row), row["id"]


def _mean(found: list[RowOutcome], start: str) -> float:
    errors = [abs(r.error) for r in found if r.error is not None and r.metric.startswith(start)]
    return float(np.mean(errors))


@pytest.mark.parametrize(
    ("family", "limits"),
    [
        ("apex_plus_vllm", {"ttft": 0.07, "tpot": 0.035, "e2e": 0.035}),
        ("llmservingsim_vllm", {"ttft": 0.15, "tpot": 0.07, "e2e": 0.08}),
    ],
)
def test_replays_are_near(family: str, limits: dict[str, float]) -> None:
    found = list(validate(DATA / "serving.json", families=[family]).rows)
    assert all(r.predicted is not None for r in found)
    for start, limit in limits.items():
        assert _mean(found, start) <= limit, start
