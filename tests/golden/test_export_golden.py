"""Launch files of small plans and deployments: a checksum of each file equals the stored one.

`tests/golden/launch_files.json` holds requests (`bases`: target, version, wrapper and scenario), fields that are set on
one of them (`cases`) and the checksums of what is written. `make goldens` writes them anew; say why in the changelog.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_command_golden import REGENERATE, slow, with_digest, with_settings, write_cases

from windtunnel.exporters.launch import export

pytestmark = pytest.mark.golden

STORED = Path(__file__).with_name("launch_files.json")


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(STORED.read_text("utf-8"))
    return found


def written(request: dict[str, Any]) -> dict[str, float]:
    """Name of a file → checksum of its text; what cannot be expressed likewise."""
    with tempfile.TemporaryDirectory() as folder:
        wrapper, version = request.get("wrapper", "torchrun"), request.get("version")
        done = export(request["scenario"], request["target"], version, Path(folder), wrapper)
        found = {path.name: float(zlib.crc32(path.read_bytes())) for path in done.files}
    return found | {"unsupported": float(zlib.crc32("\n".join(done.unsupported).encode()))}


def identifiers() -> Iterator[Any]:
    yield from stored()["bases"]
    yield from (pytest.param(id, marks=slow(case)) for id, case in stored()["cases"].items())


@pytest.mark.parametrize("id", list(identifiers()))
def test_launch_files_of_small_scenarios(id: str) -> None:
    all_ = stored()
    case = all_["cases"].get(id)
    base = all_["bases"][case["base"] if case else id]
    request = {name: value for name, value in base.items() if name != "digest"}
    found = written(with_settings(request, case["set"]) if case else request)
    if REGENERATE:
        write_cases(STORED, with_digest(all_, id, found))
        base, case = stored()["bases"][case["base"] if case else id], stored()["cases"].get(id)
    expected = base["digest"] | (case["digest"] if case else {})
    assert found == {name: value for name, value in expected.items() if value is not None}
