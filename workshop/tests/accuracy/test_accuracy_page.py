"""The accuracy page: every family has its story, files exist, plots are light and hold every point."""

from __future__ import annotations

from pathlib import Path

from windtunnel_lab.accuracy.out_of_sample import out_of_sample
from windtunnel_lab.accuracy.plots import residual_plot
from windtunnel_lab.accuracy.write_page import story_groups, write_plots


def test_every_judged_family_has_a_story() -> None:
    told = {family for group in story_groups() for family in group["families"]}
    assert {j.residual.family for j in out_of_sample()} <= told


def test_plots_are_light_and_whole(tmp_path: Path) -> None:
    write_plots(tmp_path)
    assert {p.stem for p in tmp_path.iterdir()} == {g["name"] for g in story_groups()}
    assert all(2_000 < p.stat().st_size < 60_000 for p in tmp_path.iterdir())


def test_a_plot_has_each_point_twice() -> None:
    found = [j for j in out_of_sample() if j.residual.family == "narayanan-t1"]
    drawn = residual_plot("a < b", found)
    assert drawn.count("h0") == 2 * len(found) and "a &lt; b" in drawn
