"""The folder of a sweep may come from others: a manifest with values of another kind is a damaged one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.files.checksums import sealed
from windtunnel.sweeps.axes import Axis
from windtunnel.sweeps.definition import MANIFEST, Definition, manifest_in

GOOD = Definition(
    verb="train", scenario={"model": "x"}, folder=".", axes=(Axis(("plan.tp",), ((1,), (2,))),), physics="0"
).manifest()
WRONG: list[Any] = [None, True, 1.5, -1, 10**15, "x", [], ["x"], {}, {"x": 1}]


def read(folder: Path, data: dict[str, Any]) -> Definition:
    """The definition of a manifest with a fitting checksum."""
    (folder / MANIFEST).write_bytes(sealed(data))
    return manifest_in(folder / MANIFEST)


@pytest.mark.parametrize("name", ["verb", "scenario", "folder", "draws", "seed", "full", "physics", "axes"])
def test_a_value_of_another_kind_is_damage(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, GOOD).manifest() == GOOD
    read_all = 0
    for value in WRONG:
        try:
            found = read(tmp_path, GOOD | {name: value})
        except BadInput as error:
            assert "is damaged" in str(error)
            continue
        read_all += 1
        assert type(found.manifest()[name]) is type(GOOD[name])
        next(found.cells(), None)
    assert read_all <= 4


@pytest.mark.parametrize(
    "axis",
    [{"fields": [1], "values": [[1]]}, {"fields": ["a"], "values": [[1, 2]]}, {"fields": ["a"], "values": 5}, {}, 1],
    ids=str,
)
def test_an_axis_of_another_kind_is_damage(tmp_path: Path, axis: Any) -> None:
    with pytest.raises(BadInput, match="is damaged"):
        read(tmp_path, GOOD | {"axes": [axis]})


def test_more_cells_than_a_sweep_may_have_are_damage(tmp_path: Path) -> None:
    axis = {"fields": ["a"], "values": [[value] for value in range(1001)]}
    with pytest.raises(BadInput, match="more than 1,000,000 cells"):
        read(tmp_path, GOOD | {"axes": [axis, axis | {"fields": ["b"]}]})
