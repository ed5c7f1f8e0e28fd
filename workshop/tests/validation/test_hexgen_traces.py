"""HexGen-Flow's published traces, where they are beside the repository: the claims draw questions by their means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reasoning_rows import rows

from windtunnel.programs.strategies.text_to_sql import CANDIDATE
from windtunnel_lab.papers.hexgen_text2sql import experiment
from windtunnel_lab.reproduce.settings import central

pytestmark = [pytest.mark.validation, pytest.mark.slow]
LONGER_TEMPLATE = 9158
"""Tokens."""


def test_deadlines_of_the_published_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "traces.json"
    known = rows("agent_traces")
    file.write_text(json.dumps(known))
    drawn, values = experiment.scenario, central(experiment.EXPERIMENT.setting)

    def published(case: dict[str, Any], values: dict[str, Any], alpha: float | None) -> dict[str, Any]:
        own = drawn(case, values, alpha)
        name = next(r["name"] for r in known if r["queries"] == case["questions"])
        own["programs"]["strategy"] = {"text_to_sql": {"file": str(file), "trace": name, "repeats": True}}
        return own

    monkeypatch.setattr(experiment, "scenario", published)
    assert experiment.deadline(values) == pytest.approx(1.41, rel=0.2)
    assert experiment.ends(values) == pytest.approx(1.65, rel=0.2)


def test_what_the_claims_draw_is_what_the_traces_hold() -> None:
    for row, case in zip(rows("agent_traces"), experiment.EXPERIMENT.fixed("traces"), strict=True):
        traces = [tuple(map(tuple, one)) for one in row["traces"]]
        longer = [next(c[1] for c in one if c[0] == CANDIDATE) for one in traces]
        schema = np.array(longer) - LONGER_TEMPLATE
        assert (len(traces), len(set(traces))) == (case["questions"], case["distinct"])
        assert schema.mean() == pytest.approx(case["schema_tokens"], rel=0.01)
        assert schema.std() / schema.mean() == pytest.approx(case["schema_cv"], abs=0.005)
        revisions = [sum(c[0] == "revise" for c in one) for one in traces]
        assert np.mean(revisions) == pytest.approx(case["revisions"], abs=0.5)
