"""The readable script of the whole way runs and ends at the prediction of `windtunnel train`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import windtunnel as wt

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["llama3-70b-64xh100", "gpt3-13b-16xa100-one-port"])
def test_the_anatomy_ends_at_the_prediction(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = importlib.util.spec_from_file_location("anatomy", ROOT / "examples/anatomy_of_a_prediction.py")
    assert place is not None and place.loader is not None
    script = importlib.util.module_from_spec(place)
    place.loader.exec_module(script)
    scenario = str(ROOT / f"examples/{name}.yaml")
    assert script.main(scenario) == wt.simulate_training(scenario, sensitivities=False).step_time_s
    assert "9. The same in one call" in capsys.readouterr().out
    assert len((ROOT / "examples/anatomy_of_a_prediction.py").read_text("utf-8").splitlines()) < 150
