"""Pages of the documentation site: evidence stands outside the menu and the search, and every page can be reached."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import site_pages  # noqa: E402

PAGES = [page.relative_to(ROOT / "docs") for page in sorted((ROOT / "docs").rglob("*.md"))]


def in_menu() -> set[Path]:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    found: set[Path] = set()

    def walk(node: object) -> None:
        if isinstance(node, str):
            found.add(Path(node))
        for one in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            walk(one)

    walk(yaml.safe_load(text)["nav"])
    return found


def test_the_menu_holds_pages_and_no_evidence() -> None:
    assert in_menu() <= set(PAGES)
    assert not [page for page in in_menu() if site_pages.is_evidence(page)]


def test_evidence_is_linked_from_its_page() -> None:
    folder = ROOT / "docs" / "accuracy"
    linked = re.findall(r"\]\(([^)]+)\)", (folder / "evidence.md").read_text("utf-8"))
    found = {(folder / link).resolve().relative_to(ROOT / "docs") for link in linked}
    single = {page for page in PAGES if site_pages.is_evidence(page) and "techniques" not in page.parts}
    assert single <= found


def test_every_section_of_a_scenario_has_a_page_in_the_menu() -> None:
    written = {page for page in PAGES if page.name.startswith("fields-")}
    assert written and written <= in_menu()


def test_evidence_alone_is_left_out_of_the_search(tmp_path: Path) -> None:
    site_pages.copy(tmp_path / "docs")
    for page in PAGES:
        text = (tmp_path / "docs" / page).read_text("utf-8")
        assert text.startswith(site_pages.OUT_OF_SEARCH) == site_pages.is_evidence(page), page
        assert text.endswith((ROOT / "docs" / page).read_text("utf-8"))
