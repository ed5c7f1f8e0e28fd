"""Links that are shared between studios."""

from __future__ import annotations

import pytest

from windtunnel.errors import BadInput
from windtunnel.studio.serve import shared_scenario


@pytest.mark.parametrize("head", ["http://127.0.0.1:4711/", "http://localhost:1/", ""])
def test_a_shared_link_keeps_its_scenario(head: str) -> None:
    assert shared_scenario(f"{head}#/scenario?s=eJw-_9") == "#/scenario?s=eJw-_9"


@pytest.mark.parametrize(
    "link", ["http://127.0.0.1:4711/", "http://a/#/search", "#/scenario?s=<b>", "https://a/#/scenario?s="]
)
def test_a_link_without_a_scenario_is_refused(link: str) -> None:
    with pytest.raises(BadInput, match="Copy link"):
        shared_scenario(link)


@pytest.mark.parametrize("name", ["", "my.yaml", "runs/a"])
def test_files_are_no_links(name: str) -> None:
    assert shared_scenario(name) == ""
