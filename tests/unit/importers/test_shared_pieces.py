"""Pieces that several readers of launch files share: inner scripts, Slurm's lines, comments of pools, dtypes."""

from __future__ import annotations

import pytest

from windtunnel.importers.inner_script import inner_script
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.launch_text import sbatch_options
from windtunnel.importers.launched import distillation
from windtunnel.importers.server_fields import _POOL, pool_comment
from windtunnel.importers.settings import Settings
from windtunnel.importers.shell import Word


@pytest.mark.parametrize("words", ["bash -c X", "srun /bin/sh -lc X", "docker run image bash -ec X"])
def test_the_script_that_a_command_hands_to_a_shell(words: str) -> None:
    assert inner_script([Word(text, 7) for text in words.split()]) == Word("X", 7)


@pytest.mark.parametrize("words", ["bash X", "bash -c", "python -c X", "bash -x X"])
def test_commands_without_an_inner_script(words: str) -> None:
    assert inner_script([Word(text, 1) for text in words.split()]) is None


def test_what_a_script_asks_of_slurm_has_its_line() -> None:
    text = "#!/bin/bash\n#SBATCH --nodes=4\n\n#SBATCH -N 2 # two\n# SBATCH --nodes=9\n"
    assert list(sbatch_options(text)) == [("nodes", "4", 2), ("N", "2", 4)]


@pytest.mark.parametrize(("part", "nodes"), [(None, 1), ("prefill", 1), ("decode", 3), (None, 2)])
def test_a_comment_of_a_pool_is_read_back(part: str | None, nodes: int) -> None:
    found = _POOL.search(pool_comment("a pool", 5, 8, part, nodes))
    assert found is not None
    assert (found["copies"], found["devices"], found["part"]) == ("5", "8", part)
    assert found["nodes"] == (str(nodes) if nodes > 1 else None)


@pytest.mark.parametrize(
    ("text", "kind", "wrong"),
    [("torch.bfloat16", "bf16", 0), ("half", "fp16", 0), ("float32", "fp32", 0), ("auto", None, 0), ("fp8", None, 1)],
)
def test_a_dtype_of_torch_is_read_or_refused(text: str, kind: str | None, wrong: int) -> None:
    launch = Launch(format="x", title="x", file="x.yaml")
    assert Settings(launch, {"dtype": text}, {"dtype": 3}).dtype("dtype") == kind
    assert len(launch.problems) == wrong


@pytest.mark.parametrize(("without", "wrong"), [((), 1), (("Distillation",), 0), (("rollouts",), 1)])
def test_distillation_is_refused_unless_the_student_alone_is_asked_for(without: tuple[str, ...], wrong: int) -> None:
    launch = Launch(format="x", title="x", file="x.yaml")
    distillation(launch, Wanted(without=without), "teacher", 4)
    assert len(launch.problems) == wrong
