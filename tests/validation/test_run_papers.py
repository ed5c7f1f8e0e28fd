"""Rules for whom a step waits on an open profile of 256 serverless workers, next to its repository's own estimate."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from windtunnel.runs.step_waits import STEP_WAITS

pytestmark = pytest.mark.validation
FOLDER = next(
    (p / "shared/data/runs/stragglers" for p in Path(__file__).parents if (p / "shared/data/runs/stragglers").exists()),
    None,
)
SCHEMES = {
    "uncoded": ("all", {}),
    "GC": ("gradient-coding", {"late": 15, "patience": 1.0}),
    "M-SGC": ("m-sgc", {"burst": 1, "window": 2, "late": 27, "patience": 1.0}),
    "SR-SGC": ("sr-sgc", {"burst": 2, "window": 3, "late": 23, "patience": 1.0}),
}


def profile(load: int) -> np.ndarray:
    assert FOLDER is not None
    with (FOLDER / f"lambda256_cnn_load{load}_canada.csv").open() as rows:
        return np.array([[float(x) for x in row] for row in list(csv.reader(rows))[1:]])


@pytest.mark.skipif(FOLDER is None, reason="rows are not on this machine")
def test_times_of_coded_rounds_are_the_estimated_ones_within_a_tenth() -> None:
    assert FOLDER is not None
    idle, busy = profile(0), profile(1)
    batch = busy.mean() - idle.mean()  # seconds that the whole batch adds to a worker
    times = idle + batch / 256
    found = {}
    for name, (rule, knobs) in SCHEMES.items():
        waited = STEP_WAITS.get(rule).wait(times, batch / 256 / times.mean(), knobs)
        found[name] = (80 + waited.delay) * waited.factor
    with (FOLDER / "sgc_estimated_runtimes.csv").open() as rows:
        estimated = {row["scheme"]: float(row["runtime_estimated_s"]) for row in csv.DictReader(rows)}
    for name, seconds in estimated.items():
        assert found[name] == pytest.approx(seconds, rel=0.1), name
    assert found["M-SGC"] < found["GC"] < found["uncoded"] and found["M-SGC"] < found["SR-SGC"]
