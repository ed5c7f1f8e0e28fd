"""Writers: the same texts everywhere, whole words at 80 columns, nothing from a scenario read as HTML."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from view_texts import fragments, missing, page_text, printed

from windtunnel.charts.chart import Axis, Chart
from windtunnel.charts.forms import line
from windtunnel.views import view as v
from windtunnel.writers import html, studio, terminal

CHART = Chart(title="a line", layers=tuple(line([0.0, 1.0], [1.0, 2.0])), x=Axis(), y=Axis())
WIDE = v.table(
    ("candidate", "step time", "bound below", "tokens a second", "memory", "what it costs"),
    [("tp 2 · pp 4 · dp 8 · mbs 1", "12.34 s", "11.90 s", "1,234,567", "71.20 GiB", "nothing that is counted here")],
    numeric=(1, 2, 3, 4),
    drop=(2,),
)
VIEW = v.View(
    title="a <b>title</b> & more",
    aside="simulated in 3.00 ms",
    lead=("a model on devices", v.Text("a plan", "dim")),
    verdict=v.Text("does not fit", "bad"),
    tiles=(
        v.Tile("Step time", v.Text("1.00 s", path="step_time_s"), ("80 % interval", "of the scenario"), "mean"),
        v.Tile("Memory", "3 GiB", drawing=v.Gauge((v.Part(0.5, "#1565c0", "weights"),), 0.9)),
        v.Tile("Measured", "2 s", drawing=v.Band(1.0, 2.0, 3.0, (2.1, 2.2), "by somebody")),
    ),
    facts=(v.Fact("Bound by", "the link"), v.Fact("Load", v.Text("at most 4", spark=(0.0, 2.0, 4.0)), "a note")),
    sections=(
        v.Section(
            "Where", (v.Table(WIDE.columns, WIDE.rows * 3, totals=1), v.Lines(("one", "two"), marked=True)), "hint"
        ),
        v.Section("Shares", (v.pairs([("compute", v.Text("60 %", share=0.6, colour="#1565c0"))]),), beside=True),
        v.Section("Chart", (v.Drawing(lambda: CHART),), pages_only=True, anchor="chart"),
        v.Section("Scenario", (v.Code("model: <x>", "Scenario"),), pages_only=True),
    ),
    warnings=("a warning <i>",),
    assumed=(("plan.tp", "2", "as the framework does"),),
    citations=("A paper, 2024",),
    origin=("windtunnel 1",),
)


def test_every_text_of_the_terminal_stands_in_the_others() -> None:
    found = fragments(VIEW)
    assert "nothing that is counted here" in found and "60 %" in found and "a note" in found
    assert missing(VIEW) == []


def test_a_text_that_a_writer_leaves_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    full = studio.plain

    def without_tiles(view: v.View, *, charts: bool = False) -> dict[str, object]:
        return full(replace(view, tiles=()), charts=charts)

    monkeypatch.setattr(studio, "plain", without_tiles)
    assert ("studio", "1.00 s mean") in missing(VIEW)


def test_a_terminal_of_80_columns_drops_a_column_before_it_breaks_a_word() -> None:
    lines = printed(VIEW, 80).splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "bound below" not in text and "bound below" in printed(VIEW)
    assert "1,234,567" in text and "71.20 GiB" in text and "12.34 s" in text
    for word in ("candidate", "nothing", "counted"):
        assert word in text


def test_a_table_too_wide_for_whole_words_becomes_several_with_the_first_column_in_front() -> None:
    names = [f"quantity-{at}" for at in range(9)]
    table = v.table(("what", *names), [("alpha", *names), ("beta", *names)])
    text = printed(v.View(title="t", sections=(v.Section("", (table,)),)), 60)
    assert all(text.count(name) == 3 for name in names)
    assert text.count("alpha") > 1 and max(map(len, text.splitlines())) <= 60


def test_the_terminal_builds_no_chart() -> None:
    def never() -> Chart:
        raise AssertionError("built")

    section = v.Section("Chart", (v.Drawing(never),))
    view = v.View(title="t", sections=(section,))
    assert "Chart" not in printed(view)
    assert studio.plain(view)["sections"] == [{"kind": "section", "title": "Chart", "blocks": []}]
    with pytest.raises(AssertionError, match="built"):
        html.render(view)


def test_texts_are_never_read_as_html() -> None:
    page = html.render(VIEW)
    assert (
        "a &lt;b&gt;title&lt;/b&gt; &amp; more" in page and "a warning &lt;i&gt;" in page and "model: &lt;x&gt;" in page
    )
    assert "<figure" in page and 'id="chart"' in page and "by somebody" in page


def test_what_only_pages_show_is_not_printed() -> None:
    text = printed(VIEW)
    assert "model:" not in text and "windtunnel 1" not in text
    assert "model: <x>" in page_text(VIEW) and "windtunnel 1" in page_text(VIEW)


def test_the_studio_is_given_plain_data() -> None:
    data = studio.plain(VIEW, charts=True)
    assert json.loads(json.dumps(data)) == data
    assert data["tiles"][0]["value"] == {"kind": "text", "text": "1.00 s", "start": 0.0, "path": "step_time_s"}
    (chart,) = data["sections"][2]["blocks"][0]["charts"]
    assert chart["title"] == "a line" and chart["svg"].startswith("<svg") and "<script" not in chart["svg"]
    assert all(name.startswith("--wt-") and value.startswith("#") for name, value in data["dark"].items())


@pytest.mark.parametrize(("share", "drawn"), [(0.0, ""), (0.5, "██"), (0.28125, "█▏"), (2.0, "████")])
def test_bars_are_of_eighths(share: float, drawn: str) -> None:
    assert terminal.bar(share, 4) == drawn


def test_a_narrow_terminal_drops_the_column_with_the_highest_number_first() -> None:
    table = v.table(("name", "first to go", "second to go"), [("a" * 20, "b" * 20, "c" * 20)], drop=(1, 2))
    view = v.View(title="t", sections=(v.Section("s", (table,)),))
    wide, narrow, least = (printed(view, width, everything=False) for width in (80, 50, 30))
    assert "b" * 20 in wide and "c" * 20 in wide
    assert "b" * 20 not in narrow and "c" * 20 in narrow
    assert "c" * 20 not in least and "a" * 20 in least


def test_totals_stand_below_a_line() -> None:
    rows = [("one", "1"), ("two", "2"), ("both", "3")]
    table = v.Table(v.columns("part", "figure", numeric=(1,)), tuple(rows), totals=1)
    lines = printed(v.View(title="t", sections=(v.Section("s", (table,)),)), 80).splitlines()
    place = {name: next(i for i, line in enumerate(lines) if name in line) for name, _ in rows}
    assert place["two"] == place["one"] + 1 and place["both"] == place["two"] + 2
