"""Curves are kept whole; a damaged one is set aside and learned again, whatever is damaged."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

from windtunnel.learning import curves
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.learning.curves import CurveKey, Learned, keep, kept, learn_curve
from windtunnel.learning.inner import INNER
from windtunnel.learning.tasks import TASKS

KEY = CurveKey(
    task="quadratic",
    task_knobs={name: knob.default for name, knob in TASKS.get("quadratic").knobs.items()},
    workers=2,
    steps=8,
    batch=4,
    algorithm="data_parallel",
    algorithm_knobs={name: knob.default for name, knob in ALGORITHMS.get("data_parallel").knobs.items()},
    inner="sgd",
    inner_knobs={name: knob.default for name, knob in INNER.get("sgd").knobs.items()},
    lr={"peak": 0.1},
    split="iid",
    split_value=1.0,
    seed=1,
    evaluate_every=4,
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kept curve."""
    monkeypatch.setenv("WINDTUNNEL_CACHE", str(tmp_path))
    keep(KEY, learn_curve(KEY))
    (found,) = (tmp_path / "curves").iterdir()
    return found


def same(a: Learned, b: Learned) -> bool:
    """Whether two curves are equal to the last bit."""
    return np.array_equal(a.curve.train_loss, b.curve.train_loss)


def test_any_flipped_bit_or_cut_gives_the_curve_or_none(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, content, chance = kept(KEY), file.read_bytes(), random.Random(1)
    assert before is not None
    lost = 0
    for number in range(200):
        harmed = bytearray(content)
        if number % 2:
            harmed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        else:
            del harmed[chance.randrange(len(content)) :]
        file.write_bytes(harmed)
        found = kept(KEY)
        lost += found is None
        assert found is None or same(found, before)
    assert lost >= 100
    assert capsys.readouterr().err.count("set aside and learned again\n") == lost


def test_the_curve_of_another_key_is_not_taken(file: Path) -> None:
    other = KEY.__class__(**{**{n: getattr(KEY, n) for n in KEY.__dataclass_fields__}, "seed": 2})
    file.rename(file.with_name(f"{other.digest()}.npz"))
    assert kept(other) is None


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "bomb", "objects"])
def test_what_others_put_into_the_folder_is_set_aside_unread(
    file: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content = file.read_bytes()
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "link":
        file.with_name("elsewhere").write_bytes(content)
        file.symlink_to(file.with_name("elsewhere"))
    elif kind == "folder":
        file.mkdir()
    elif kind == "bomb":
        np.savez_compressed(file, scalars=np.array("{}"), train_loss=np.zeros(1_000_000))
    else:
        np.savez(file, scalars=np.array([print], dtype=object))
    assert kept(KEY) is None
    assert "set aside and learned again" in capsys.readouterr().err
    assert not os.path.lexists(file)


def test_without_a_home_nothing_is_kept_and_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(curves, "curves_directory", none)
    keep(KEY, learn_curve(KEY))
    assert kept(KEY) is None
