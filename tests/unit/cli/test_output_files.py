"""What is read is never written over, and nothing is written twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.cli.main import run
from windtunnel.cli.output import check_targets
from windtunnel.errors import BadInput


def test_input_and_twice_written_files_are_refused(tmp_path: Path) -> None:
    read, once = tmp_path / "s.yaml", tmp_path / "r.html"
    check_targets(once, None, inputs=[read, "-", None])
    with pytest.raises(BadInput, match="read here"):
        check_targets(tmp_path / "sub" / ".." / "s.yaml", inputs=[str(read)])
    with pytest.raises(BadInput, match="written already"):
        check_targets(once, once)


@pytest.mark.parametrize("name", ["nowhere/r.csv", "file/r.json", "."])
def test_requests_that_cannot_be_written_are_a_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("kept")
    scenario = Path(__file__).parents[3] / "examples" / "serving" / "llama3-70b-4xh100.yaml"
    few = ["--set", "serving.traffic.num_requests=20", "--set", "serving.traffic.warmup_requests=0"]
    assert run(["serve", str(scenario), *few, "--requests", name]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")
    assert run(["serve", str(scenario), *few, "--requests", "r.csv"]) == 0
    assert Path("r.csv").read_text().count("\n") == 21 and sorted(p.name for p in Path().iterdir()) == ["file", "r.csv"]
