"""Real small steps on this CPU beside their predictions, from a profile measured here. Needs PyTorch and quiet cores.

Calibrates twice (one process, two processes), about forty seconds, then runs every step in processes of its own. Where
quartiles of the measured cases lie 15 % apart or more, nothing can be said, and the tests skip. A run whose steps lie
as far apart, or after which cases of the calibration take 15 % more or less than before, is repeated, twice at most.
Where none of the three holds, the machine is calibrated anew and the step run twice more: virtual machines change.
On a machine that is shared, `chrt -f 50` in front keeps other programs off the cores, though not off the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("torch", reason="real steps need PyTorch: pip install 'windtunnel[torch]'")

from windtunnel.calibration import measure as real
from windtunnel.calibration.machine import cores
from windtunnel.calibration.profile import NOISY, write
from windtunnel.calibration.session import calibrate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(cores() < 2, reason="two processes need two cores"),
    pytest.mark.filterwarnings("ignore"),
]

MODEL = {
    "name": "small",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "intermediate_size": 1408,
    "vocab_size": 8192,
    "norm": "rmsnorm",
}
Found = TypeVar("Found", real.Measured, real.Decoded)
STEP, MEMORY, TOKEN = 0.20, 0.10, 0.20


def _training() -> dict[str, Any]:
    return {
        "model": MODEL,
        "cluster": {"device": "cpu-generic", "nodes": 1, "devices_per_node": 2},
        "training": {"seq_len": 256, "global_batch": 4, "precision": "fp32"},
        "plan": {"mbs": 2},
    }


def _serving() -> dict[str, Any]:
    return {
        "model": MODEL,
        "cluster": {"device": "cpu-generic", "nodes": 1, "devices_per_node": 1},
        "serving": {
            "engine": "generic",
            "traffic": {"concurrency": 4, "num_requests": 4, "input_tokens": 128, "output_tokens": 32},
        },
    }


def _profile(ranks: int, folder: Path) -> str:
    found = calibrate(ranks=ranks, kind="cpu", store=folder / f"{ranks}.jsonl")
    if found.noise > NOISY:
        pytest.skip(f"noisy machine: quartiles of a case lie {found.noise:.0%} of its median apart with {ranks} ranks")
    path = folder / f"{ranks}.yaml"
    write(found, path)
    return str(path)


class Calibrated:
    """Profile of this machine for a number of processes; `again` measures it anew."""

    def __init__(self, ranks: int, folders: pytest.TempPathFactory) -> None:
        self.ranks, self.folders = ranks, folders
        self.profile = ""
        self.again()

    def again(self) -> None:
        self.profile = _profile(self.ranks, self.folders.mktemp(f"ranks{self.ranks}"))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Calibrated:
    return Calibrated(1, tmp_path_factory)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Calibrated:
    return Calibrated(2, tmp_path_factory)


def _disturbed(found: real.Measured | real.Decoded) -> str:
    """Why a run says nothing of the prediction; empty where it does."""
    if found.run.noise > NOISY:
        return f"noisy machine: quartiles of the steps lie {found.run.noise:.0%} of their median apart"
    return next((line for line in found.doubts if real.CHANGED in line), "")


def _holds(run: Callable[[str], Found], limit: float, machine: Calibrated) -> Found:
    """Up to three runs, and two more after a new calibration: one that was not disturbed has to be within the limit.

    Other tenants of a machine slow it for seconds at a time; a prediction that is wrong is wrong in every run.
    """
    quiet, why = [], ""
    for attempt in range(5):
        if attempt == 3:
            machine.again()
        found = run(machine.profile)
        if reason := _disturbed(found):
            why = reason
            continue
        quiet.append(found)
        if abs(found.error) < limit:
            return found
    if len(quiet) < 2:
        pytest.skip(why or "one run of five was not disturbed")
    return min(quiet, key=lambda found: abs(found.error))


def _said(found: real.Measured) -> str:
    parts = ", ".join(f"{k} {1e3 * p:.1f}/{1e3 * m:.1f}" for k, (p, m) in found.classes().items())
    text = (
        f"{found.way}: {1e3 * found.predicted.step_time_s:.1f} ms predicted, {1e3 * found.seconds:.1f} ms measured "
        f"({found.error:+.1%}); memory {found.memory_error:+.1%}; classes in ms, predicted/measured: {parts}"
    )
    return f"{text} {found.doubts}"


def _told(found: real.Measured) -> real.Measured:
    print(_said(found))  # for `pytest -s`, where figures are noted down
    return found


def test_a_step_of_one_process(one: Calibrated) -> None:
    found = _holds(lambda profile: _told(real.measure(_training(), profile=profile, way="single")), STEP, one)
    assert abs(found.error) < STEP and abs(found.memory_error) < MEMORY, _said(found)


@pytest.mark.parametrize("way", ["ddp", "fsdp2", "tp", "pp"])
def test_a_step_of_two_processes(two: Calibrated, way: str) -> None:
    found = _holds(lambda profile: _told(real.measure(_training(), profile=profile, way=way)), STEP, two)
    assert abs(found.error) < STEP and abs(found.memory_error) < MEMORY, _said(found)


def test_decoding_of_one_process(one: Calibrated) -> None:
    def run(profile: str) -> real.Decoded:
        found = real.measure_decoding(_serving(), profile=profile)
        print(
            f"decode: {1e3 * found.predicted_tpot_s:.2f} ms predicted, {1e3 * found.tpot_s:.2f} ms "
            f"({found.error:+.1%}), prompts {found.ttft_error:+.1%}; {found.doubts}"
        )
        return found

    assert abs(_holds(run, TOKEN, one).error) < TOKEN
