"""Links of a built site: dead ones are found, live ones are not told."""

from __future__ import annotations

import runpy
from pathlib import Path

CHECK = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "check_site.py"))["dead_links"]


def test_dead_links_are_found_and_live_ones_are_not(tmp_path: Path) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="guide/">g</a><a href="guide/#here">h</a><a href="#top">t</a>'
        '<a href="https://example.org/none">o</a><a href="guide/#gone">1</a><a href="none/">2</a><img src="no.png">'
    )
    (tmp_path / "guide" / "index.html").write_text(
        '<a id="here" href="../">up</a><a href="/index.html">root</a>'
        '<a href="../../outside.html">3</a><a href="#no">4</a>'
    )
    assert list(CHECK(tmp_path)) == [
        ("guide/index.html", "../../outside.html"),
        ("guide/index.html", "#no"),
        ("index.html", "guide/#gone"),
        ("index.html", "none/"),
        ("index.html", "no.png"),
    ]


def test_every_decision_stands_in_their_list() -> None:
    folder = Path(__file__).parents[2] / "docs" / "development" / "adr"
    listed = (folder / "README.md").read_text("utf-8")
    assert [path.name for path in sorted(folder.glob("[0-9]*.md")) if f"({path.name})" not in listed] == []
