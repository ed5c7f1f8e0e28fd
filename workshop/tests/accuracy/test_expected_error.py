"""README, the home page of the documentation and the accuracy page state the errors of the residuals that ship."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from windtunnel_lab.accuracy import by_version
from windtunnel_lab.accuracy.expected_error import expected_error

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/accuracy/training.md"])
def test_a_page_states_the_errors_of_the_shipped_residuals(page: str) -> None:
    assert expected_error() in (ROOT / page).read_text("utf-8"), "scripts/refresh-readme and make accuracy write it"


@pytest.mark.slow
def test_the_page_of_versions_is_that_of_the_shipped_residuals() -> None:
    stored = (ROOT / "docs" / "accuracy" / "by-version.md").read_text("utf-8")
    assert by_version.page() == stored, "python -m windtunnel_lab.accuracy.by_version > docs/accuracy/by-version.md"


def test_each_version_of_the_changelog_has_its_medians() -> None:
    sections = re.findall(r"(?m)^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text("utf-8"))
    assert set(by_version.kept()) == set(sections)
