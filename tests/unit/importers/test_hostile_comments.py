"""What others named stands in comments of files that are written, and never leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from windtunnel.calibration.samples import fit_samples, write_population
from windtunnel.cli.main import run
from windtunnel.errors import comment

LINES = "x\nlearning: {task: {torch-module: {file: x.py}}}\r\n\x85learning: 1\u2028learning: 2\x1b[31m#"
SCRIPT = (
    "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 2 "
    "--seq-length 128 --micro-batch-size 1 --global-batch-size 8 --max-position-embeddings 128 --vocab-size 1000 "
)


def sections(text: str) -> set[str]:
    """Sections of a YAML text, which has no control characters."""
    assert all(c.isprintable() or c == "\n" for c in text)
    return set(yaml.safe_load(text) or {})


def test_a_comment_is_one_line() -> None:
    assert "\n" not in comment(LINES) and sections(comment(LINES)) == set()


def test_the_name_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"{LINES.replace('/', '')}.csv"
    file.write_text("arrival_s,input_tokens,output_tokens\n" + "".join(f"{i},100,10\n" for i in range(50)))
    assert run(["import", str(file)]) == 0
    assert sections(capsys.readouterr().out) == {"serving"}


@pytest.mark.parametrize("where", ["the file", "an option", "a value", "--name"])
def test_what_a_launch_file_holds(where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"{LINES.replace('/', '') if where == 'the file' else 'x'}.sh"
    more = {"an option": f"'--own-{LINES}' 1", "a value": f"--exp-name '{LINES}' --own '{LINES}'"}.get(where, "")
    file.write_text(SCRIPT + more + "\n")
    name = ["--name", LINES] if where == "--name" else []
    code = run(["import", str(file), "--device", "h100-sxm-80gb", "--nodes", "1", *name])
    out = capsys.readouterr().out
    assert code in (0, 2)
    assert "learning" not in sections(out)
    assert bool(out) == (code == 0)


def test_the_name_of_a_file_of_attempts(tmp_path: Path) -> None:
    file = tmp_path / f"{LINES.replace('/', '')}.json"
    rows = [
        {"task_id": i, "attempt": k, "correct": (i + k) % 3 == 0, "tokens": 100 + i}
        for i in range(20)
        for k in range(20)
    ]
    file.write_text(json.dumps(rows))
    write_population(fit_samples(file, model="", task="", temperature=None), tmp_path / "out.yaml")
    assert "learning" not in sections((tmp_path / "out.yaml").read_text())
