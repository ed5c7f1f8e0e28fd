"""Words of the command line that are a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.cli.ask import as_command
from windtunnel.cli.main import run
from windtunnel.cli.output import check_new

COMMANDS = ("train", "serve", "plan", "ask")


@pytest.mark.parametrize(
    "words", [["llama3-70b on 64 h100"], ["llama3-70b", "on", "64", "h100"], ["train llama3-70b on 64 h100", "--json"]]
)
def test_a_question_is_asked(words: list[str]) -> None:
    assert as_command(words, COMMANDS) == ["ask", *words]


@pytest.mark.parametrize(
    "words", [["train", "x.yaml"], ["trian", "x.yaml"], ["--help"], ["nonsense"], [], ["plann"], ["--version"]]
)
def test_a_command_and_a_slip_of_one_are_none(words: list[str]) -> None:
    assert as_command(words, COMMANDS) == words


def test_an_output_is_not_written_over_unasked_nor_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, link = tmp_path / "o.yaml", tmp_path / "link.yaml"
    output.write_text("mine\n", "utf-8")
    link.symlink_to(tmp_path / "nowhere.yaml")
    assert run(["ask", "llama3-8b on 8 h100", "-o", str(output)]) == 2
    assert "--force overwrites it" in capsys.readouterr().err
    assert run(["ask", "llama3-8b on 8 h100", "--force", "-o", str(link)]) == 2
    assert "is a link" in capsys.readouterr().err
    assert output.read_text("utf-8") == "mine\n" and not (tmp_path / "nowhere.yaml").exists()
    check_new(output, force=True)
    check_new(tmp_path / "new.yaml", force=False)
    check_new(Path("/dev/null"), force=False)


def test_no_block_of_a_page_is_written_over_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, taken = tmp_path / "page.md", tmp_path / "o-1.yaml"
    page.write_text("# a\n```bash\nvllm serve meta-llama/Llama-3.1-8B\n```\n", "utf-8")
    taken.write_text("mine\n", "utf-8")
    command = ["import", str(page), "--block", "all", "--device", "h100-sxm-80gb", "-o", str(tmp_path / "o.yaml")]
    assert run(command) == 2
    assert "o-1.yaml: exists already" in " ".join(capsys.readouterr().err.split())
    assert taken.read_text("utf-8") == "mine\n"
    assert run([*command, "--force"]) == 0
    assert taken.read_text("utf-8").startswith("#")
