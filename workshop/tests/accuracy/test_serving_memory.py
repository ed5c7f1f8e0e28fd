"""Engines' start-up lines against what is predicted for the same server."""

from __future__ import annotations

from windtunnel_lab.accuracy.serving_memory import median, page, starts, threads


def test_weights_and_caches_are_what_engines_logged() -> None:
    found = starts()
    assert threads(found) >= 25
    assert median(found, "weights") < 0.02
    assert median(found, "cached") < 0.05
    assert median(found, "cache") < 0.1


def test_servers_that_refused_do_not_start() -> None:
    assert sum(x.logged.get("starts") is False for x in starts()) >= 9
    assert [x.source for x in starts() if x.wrongly_starts] == []


def test_servers_that_started_start() -> None:
    assert [x.source for x in starts() if x.logged.get("starts") and not x.predicted["starts"]] == []


def test_the_page_has_a_line_for_each_server() -> None:
    text = page()
    assert all(x.source in text for x in starts())
