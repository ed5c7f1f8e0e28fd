"""Charts: plain specifications, drawings in both themes, forms that keep to their figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from windtunnel.charts.chart import Axis, Chart, Panels
from windtunnel.charts.colours import BLUE, css_variable, dark_properties, follow_theme, shade
from windtunnel.charts.forms import Bar, Bars, Cell, Grid, dots, horizontal, line, number_ticks, time_ticks, vertical
from windtunnel.charts.page import document, figures_table, in_notebook

LONG = "a name that is far too long to stand before a bar on a phone"


def bars(*own: Bar) -> Bars:
    return Bars(title="b", bars=own, layers=(), x=Axis(title="seconds"), y=Axis(kind="band"))


def chart() -> Chart:
    layers = [*line([1, 10, 100], [1, 2, float("nan")], series="a"), dots([2.0], [3.0], ["told & <b>"], series="b")]
    layers += [*horizontal(2.5, "objective"), *vertical(20.0, "knee")]
    assert number_ticks(10, 1000)[1][-1] == "1,000"
    ticks, words = number_ticks(1, 100)
    x = Axis(title="load", kind="log", low=1, high=100, ticks=ticks, words=words)
    return Chart(
        title="a chart", layers=tuple(layers), x=x, y=Axis(title="TTFT, s"), series={"a": BLUE, "b": "#e0862c"}
    )


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_a_specification_is_plain_data_and_draws_at_any_width() -> None:
    spec = json.loads(json.dumps(chart().spec(560), allow_nan=False))
    assert spec["$schema"].endswith("v6.json") and spec["width"] == 560
    for width in (340, 560, 1180):
        svg = chart().svg(width)
        size = re.search(r'<svg [^>]*width="(\d+)', svg)
        assert size and abs(int(size[1]) - width) <= 12
        assert {"a", "b", "objective", "knee", "load", "TTFT, s"} <= set(texts(svg))


def test_axes_begin_at_zero_unless_they_say_otherwise() -> None:
    assert chart().spec()["layer"][0]["encoding"]["y"]["scale"]["zero"] is True
    for one in (bars(Bar(name="x", end=2.0)), bars(Bar(name="x", start=5.0, end=6.0), Bar(name="y", end=6.0))):
        low = one.at(560).x.low
        assert low is not None and low <= 0.0


def test_bars_hold_what_they_are_given_and_their_texts_have_room() -> None:
    own = bars(Bar(name="gemm", end=3.0, text="3.00 s · 75.0 %"), Bar(name="host", start=3.0, end=4.0, text="1.00 s"))
    for width in (340, 560, 1180):
        drawn = own.at(width)
        rows = [row for one in drawn.layers for row in one.rows if "x2" in row]
        assert [(row["x"], row["x2"]) for row in rows] == [(0.0, 3.0), (3.0, 4.0)]
        assert "3.00 s · 75.0 %" in texts(own.svg(width))
    wide = own.at(560)
    assert wide.x.high is not None and wide.x.high > 4.0, "room for the text of the longest bar"
    assert own.at(340).y.labels is False and wide.y.labels is True
    assert bars(Bar(name=LONG, end=1.0)).at(560).y.labels is False, "long names stand above their bars"


def test_grids_leave_missing_cells_empty_and_shrink_their_texts() -> None:
    cells = [Cell(x=str(x), y="1", colour="#b5cde2", text="≥ 16.43") for x in range(7)]
    grid = Grid.of("g", cells, x="tp", y="pp", across=map(str, range(7)), down=["1", "2"])
    assert texts(grid.svg(560)).count("≥ 16.43") == 7
    sizes = [next(one.mark["fontSize"] for one in grid.at(w).layers if one.mark["type"] == "text") for w in (340, 560)]
    assert sizes[0] < sizes[1] <= 11.5


def test_colours_follow_the_theme_and_ids_are_unlike() -> None:
    svg = chart().svg(560, themed=True)
    assert f'"{css_variable(BLUE)}"' in svg and f'="{BLUE}"' not in svg
    assert f'="{BLUE}"' in chart().svg(560), "alone it keeps its colours"
    assert follow_theme('fill="#e0862c"') == 'fill="#e0862c"'
    assert shade(0.0)[1] != shade(1.0)[1]
    page = document("t", [chart().html(), chart().html()])
    ids = re.findall(r'\bid="(c\d+clip[^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert page.count(dark_properties()) == 2 and "prefers-color-scheme:dark" in page and 'id="theme"' in page


def test_marks_tell_what_they_are_and_charts_take_the_focus() -> None:
    html = chart().html("half")
    assert html.startswith('<figure class="chart half" tabindex="0" role="group" aria-label="a chart">')
    assert html.count("told &amp; &lt;b&gt;") == 2, "once a width, escaped"


@pytest.mark.parametrize("ending", ["svg", "png", "json", "html"])
def test_charts_are_written_as_their_ending_says(ending: str, tmp_path: Path) -> None:
    both = Panels((chart(), chart()), columns=2)
    for one in (chart(), both):
        path = one.save(tmp_path / f"c.{ending}")
        assert path.stat().st_size > 500
    with pytest.raises(ValueError, match="svg"):
        chart().save(tmp_path / "c.gif")
    assert len(both.spec(900)["vconcat"][0]["hconcat"]) == 2


def test_a_notebook_cell_holds_its_styles_and_escapes() -> None:
    html = in_notebook(figures_table("<t>", [("a", "<b>"), ("empty", "")]) + chart().html("notebook"))
    assert "&lt;t&gt;" in html and "&lt;b&gt;" in html and "empty" not in html
    assert "currentColor" in html and "data-jp-theme-light" in html and "<script" not in html


def test_ticks_of_times_and_numbers() -> None:
    assert time_ticks(0.04, 1.1)[1] == ("50 ms", "100 ms", "200 ms", "500 ms", "1 s")
    assert len(time_ticks(0.013, 0.03)[0]) >= 3, "a narrow range has ticks too"
    assert 3 <= len(number_ticks(3, 4)[0]) <= 8 and len(number_ticks(1e-3, 1e6)[0]) <= 8
