"""Commands of the start page and the tutorials run as they stand; generated reference pages are those of the code."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("start.md", "tutorials/a-deployment-for-a-load.md", "tutorials/weeks-of-training.md")


def commands(page: str) -> list[str]:
    """Lines of a page's shell blocks that start windtunnel."""
    inside, found = False, []
    for line in (ROOT / "docs" / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```sh"
        elif inside and line.startswith("windtunnel"):
            found.append(line)
    return found


def test_the_first_command_needs_no_index_that_has_windtunnel() -> None:
    text = (ROOT / "docs" / "start.md").read_text("utf-8")
    first = text.partition("```sh\n")[2].partition("\n")[0].partition("#")[0]
    pip, install, what = shlex.split(first)
    assert (pip, install) == ("pip", "install")
    name, _, extras = what.rstrip("]").partition("[")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert name == "." and set(extras.split(",")) <= set(known)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_run(page: str, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    told = commands(page)
    assert told
    for line in told:
        words = [sys.executable, "-m", "windtunnel", *shlex.split(line, comments=True)[1:]]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment, timeout=300
        )
        assert done.returncode == 0, (line, done.stderr[-2000:])


def test_reference_pages_are_those_of_the_code(tmp_path: Path) -> None:
    """`make docs` writes them."""
    subprocess.run([sys.executable, str(ROOT / "scripts" / "write_reference.py"), str(tmp_path)], check=True)
    for page in sorted(tmp_path.iterdir()):
        stored = ROOT / "docs" / "generated" / "reference" / page.name
        assert stored.read_text(encoding="utf-8") == page.read_text(encoding="utf-8"), f"{page.name}: run `make docs`"


def test_every_page_of_the_site_is_there() -> None:
    named = [
        line.split(": ")[-1].strip() for line in (ROOT / "mkdocs.yml").read_text().splitlines() if line.endswith(".md")
    ]
    assert len(named) > 30
    missing = [name for name in named if not (ROOT / "docs" / name).is_file()]
    assert not missing
