"""README, the home page of the documentation and the accuracy page state the errors of the residuals that ship."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel_lab.accuracy.expected_error import expected_error

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/accuracy/training.md"])
def test_a_page_states_the_errors_of_the_shipped_residuals(page: str) -> None:
    assert expected_error() in (ROOT / page).read_text("utf-8"), "scripts/refresh-readme and make accuracy write it"
