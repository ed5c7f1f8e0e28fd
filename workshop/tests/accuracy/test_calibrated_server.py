"""The draw of runs that fit and of those that judge is fixed, and the page says which it was."""

from __future__ import annotations

from pathlib import Path

from windtunnel_lab.accuracy.calibrated_server import SEED, drawn

PAGE = Path(__file__).parents[3] / "docs" / "accuracy" / "serving-calibrated.md"


def test_a_third_fits_and_the_others_judge() -> None:
    fits, rest = drawn(31, SEED)
    assert len(fits) == 10 and len(rest) == 21 and sorted(fits + rest) == list(range(31))
    assert (fits, rest) == drawn(31, SEED) != drawn(31, SEED + 1)


def test_the_page_names_its_seed_and_judges_the_unfitted_start_alone() -> None:
    text = PAGE.read_text("utf-8")
    assert f"seed {SEED}" in text and text.count("10 runs fit, 21 judge.") == 2
    assert text.count("| TPOT | 3 |") == 1 and text.count("| TTFT | 8 |") == 1
