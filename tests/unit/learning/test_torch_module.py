"""A user's module of PyTorch, and the built-in transformer, as tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from arrival_runs import built_task, job_of
from learning_runs import built

from windtunnel.errors import BadInput
from windtunnel.learning.drivers.lock_step import learn

FILE = """
import torch
from torch import nn

def model():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))

def data():
    x = torch.randn(200, 6)
    return x, (x[:, :3].argmax(dim=1))
"""
TINY = {"width": 8, "layers": 1, "heads": 2, "tokens": 6}


def test_without_torch_the_command_is_named(monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(BadInput, match=r"pip install 'windtunnel\[torch\]'"):
        built_task("torch-module", 2)


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user trusts the files of these tests."""
    monkeypatch.setenv("WINDTUNNEL_TRUST", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


class TestWithTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch", reason="PyTorch is an extra")

    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "mine.py"
        path.write_text(FILE, encoding="utf-8")
        return str(path)

    @pytest.mark.parametrize("way", ["loop", "stacked"])
    def test_gradients_are_slopes_of_losses(self, way: str) -> None:
        task = built_task("torch-module", 3, way=way, **TINY)
        params = np.tile(task.initial(), (2, 1))
        who, when = np.array([2, 0]), np.array([1, 4])
        gradients, scratch = np.empty_like(params), np.empty_like(params)
        task.gradients(params, who, when, gradients)
        draws = np.random.default_rng(1)
        for _ in range(4):
            along = draws.normal(size=params.shape).astype(np.float32)
            ends = [task.gradients(params + s * along, who, when, scratch).copy() for s in (1e-3, -1e-3)]
            slope = (ends[0] - ends[1]) / 2e-3
            np.testing.assert_allclose(slope, (gradients * along).sum(axis=1), rtol=2e-2, atol=2e-3)

    def test_loop_rows_have_the_same_bits_alone_and_among_others_and_stacked_ones_nearly(self, file: str) -> None:
        for knobs in ({"file": file}, TINY):
            task, stacked = (
                built_task("torch-module", 5, **knobs),
                built_task("torch-module", 5, way="stacked", **knobs),
            )
            noise = np.random.default_rng(1).normal(size=(5, len(task.initial()))).astype(np.float32)
            params = task.initial() + np.float32(0.1) * noise
            who, when = np.array([3, 1, 4, 0, 2]), np.array([0, 5, 2, 2, 1])
            together, other = np.empty_like(params), np.empty_like(params)
            losses = task.gradients(params, who, when, together)
            assert stacked.gradients(params, who, when, other) == pytest.approx(losses, rel=1e-5)
            np.testing.assert_allclose(other, together, atol=1e-5)
            for rows in ([2], [4, 1], [3, 2, 1, 0]):
                some = np.empty_like(params[rows])
                theirs = task.gradients(params[rows], who[rows], when[rows], some)
                assert np.array_equal(some, together[rows]) and np.array_equal(theirs, losses[rows])

    @pytest.mark.parametrize("way", ["loop", "stacked"])
    def test_the_users_module_learns_and_the_same_seed_gives_the_same_bits(self, file: str, way: str) -> None:
        def curve():
            task = built_task("torch-module", 4, file=file, way=way)
            to = job_of(task, steps=200, lr=0.3)
            return learn(built("diloco", to, period=10), task, to, 100)

        first, again = curve(), curve()
        assert np.array_equal(first.loss, again.loss)
        assert first.loss[-1] < 0.6 * first.loss[0] and first.metric[-1] > 0.75

    def test_the_transformer_learns_the_language(self) -> None:
        from learning_runs import ADAMW

        task = built_task("torch-module", 2, batch=16, width=16, layers=1, heads=2, tokens=12)
        to = job_of(task, steps=60, lr=1e-2, inner=ADAMW)
        curve = learn(built("data_parallel", to), task, to, 60)
        assert curve.loss[-1] < curve.loss[0] - 0.4

    def test_splits_divide_classes_or_are_refused(self, file: str, tmp_path) -> None:
        task = built_task("torch-module", 3, split="labels", value=1.0, file=file)
        for worker in range(3):
            assert len(np.unique(task.what.targets[task.shards.of(worker)])) == 1
        path = tmp_path / "numbers.py"
        path.write_text(FILE.replace("(x[:, :3].argmax(dim=1))", "x[:, :3] * 2"), encoding="utf-8")
        with pytest.raises(BadInput, match=r"learning.split = labels: .*allowed: iid"):
            built_task("torch-module", 3, split="labels", value=1.0, file=str(path))
        assert built_task("torch-module", 3, file=str(path)).metric == ""

    def test_dropout_is_drawn_by_worker_and_step(self, file: str, tmp_path) -> None:
        path = tmp_path / "drops.py"
        path.write_text(FILE.replace("nn.Tanh()", "nn.Tanh(), nn.Dropout(0.5)"), encoding="utf-8")
        task = built_task("torch-module", 2, file=str(path))
        params = task.initial()[None]
        out, again = np.empty_like(params), np.empty_like(params)
        task.gradients(params, np.array([1]), np.array([3]), out)
        task.gradients(params, np.array([0]), np.array([3]), again)
        task.gradients(params, np.array([1]), np.array([3]), again)
        assert np.array_equal(out, again)
        with pytest.raises(BadInput, match="allowed with dropout: loop"):
            built_task("torch-module", 2, file=str(path), way="stacked")

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            (("nn.Tanh()", "nn.BatchNorm1d(8)"), "batch normalisation"),
            (("def model", "def other"), r"has no function model\(\)"),
            (("return nn.Seq", "return 3; nn.Seq"), r"model\(\) gives a int"),
            (
                ("x = torch.randn(200, 6)", "raise ValueError('no data today')"),
                "data.. failed: ValueError: no data today",
            ),
            (("import torch\n", "import nothing_of_this_name\n"), "cannot be run: ModuleNotFoundError"),
        ],
    )
    def test_files_that_do_not_fit_are_refused_in_one_line(self, tmp_path, change, told: str) -> None:
        path = tmp_path / "bad.py"
        path.write_text(FILE.replace(*change, 1), encoding="utf-8")
        with pytest.raises(BadInput, match=told) as caught:
            built_task("torch-module", 2, file=str(path))
        assert len(str(caught.value).splitlines()) == 1
