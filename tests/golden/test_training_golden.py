"""Predictions of the examples, equal at nine digits. `make goldens` writes them anew; say why in the changelog."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from windtunnel import api

pytestmark = pytest.mark.golden

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
STORED = Path(__file__).with_name("training_golden.json")
REGENERATE = bool(os.environ.get("WINDTUNNEL_REGENERATE"))


def digits(value: Any) -> Any:
    """Nine significant digits of every float inside."""
    if isinstance(value, dict):
        return {key: digits(item) for key, item in value.items()}
    return float(f"{value:.9g}") if isinstance(value, float) else value


def figures(path: Path) -> dict[str, Any]:
    result = api.simulate_training(path, sensitivities=False)
    return {
        "step_time_s": result.step_time_s,
        "mfu": result.mfu,
        "hfu": result.hfu,
        "peak_memory_allocated_bytes": result.peak_memory_allocated_bytes,
        "peak_memory_reserved_bytes": result.peak_memory_reserved_bytes,
        "breakdown": dict(sorted(result.breakdown.items())),
        "memory_at_peak": dict(sorted(result.memory.at_peak.items())),
        "bound_by": result.bound_by,
    }


def test_every_example_has_a_stored_prediction() -> None:
    if REGENERATE:
        text = json.dumps({path.stem: digits(figures(path)) for path in EXAMPLES}, indent=2, ensure_ascii=False)
        STORED.write_text(text + "\n", "utf-8")
    assert set(json.loads(STORED.read_text("utf-8"))) == {path.stem for path in EXAMPLES}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_predictions_of_the_examples(path: Path) -> None:
    stored = json.loads(STORED.read_text("utf-8"))[path.stem]
    found = digits(figures(path))
    assert found.keys() == stored.keys()
    for key, expected in stored.items():
        if isinstance(expected, dict):
            assert found[key] == pytest.approx(expected, rel=2e-9, abs=1e-12), key
        elif isinstance(expected, float):
            assert found[key] == pytest.approx(expected, rel=2e-9), key
        else:
            assert found[key] == expected, key
