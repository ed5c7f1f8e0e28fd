"""What `calibrate --from` is given comes from others: a pipe does not hang it, and a device is not read to its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from windtunnel.calibration.aiconfigurator import calibrate_from_tables
from windtunnel.calibration.incidents import read_incidents
from windtunnel.calibration.kineto import calibrate_from_kineto
from windtunnel.calibration.logs import read_logs
from windtunnel.calibration.nccl_printed import read_nccl_tests
from windtunnel.calibration.samples import fit_samples
from windtunnel.calibration.server_results import read_loads
from windtunnel.calibration.store import Store
from windtunnel.cli.calibrate_from import SOURCES
from windtunnel.errors import BadInput

TRAINING, SERVING = "llama3-8b-8xh100-fsdp", "serving/chat-llama3-70b-8xh100"
EXAMPLES = Path(__file__).parents[3] / "examples"
READERS: dict[str, Callable[[Path], Any]] = {
    "aiconfigurator": lambda path: calibrate_from_tables("h100_sxm", None, path),
    "nccl-tests": lambda path: read_nccl_tests([path]),
    "kineto": lambda path: calibrate_from_kineto(path, str(EXAMPLES / f"{TRAINING}.yaml"), ()),
    "incidents": read_incidents,
    "samples": lambda path: fit_samples(path, model="", task="", temperature=None),
    "results": lambda path: read_loads([path], str(EXAMPLES / f"{SERVING}.yaml"), ()),
    "logs": read_logs,
    "store": lambda path: Store.open(path, {}),
}


def test_every_source_is_here() -> None:
    assert set(SOURCES) <= set(READERS)


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "/dev/full", "folder", "binary"])
@pytest.mark.parametrize("source", READERS)
def test_only_files_are_read(source: str, kind: str, tmp_path: Path) -> None:
    path = Path(kind)
    if kind == "pipe":
        os.mkfifo(path := tmp_path / "x.csv")
    elif kind == "folder":
        path = tmp_path
    elif kind == "binary":
        (path := tmp_path / "x.csv").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(BadInput) as told:
        READERS[source](path)
    assert all(len(str(problem)) < 600 for problem in told.value.problems)
