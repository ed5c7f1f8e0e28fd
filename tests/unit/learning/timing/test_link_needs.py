"""`learn --bandwidth-for`: what link each algorithm of a scenario needs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from windtunnel import api
from windtunnel.cli.main import app
from windtunnel.errors import BadInput
from windtunnel.views.link_needs import rate_text

SCENARIO: dict[str, Any] = {
    "learning": {
        "workers": 2,
        "step_s": 0.1,
        "parameters": 0.9e9,
        "layers": 24,
        "algorithms": [
            {"data_parallel": {"bits": 16}},
            {"diloco": {"period": 100, "bits": 16, "layerwise": True}},
            {"streaming-diloco": {"period": 100, "fragments": 8, "late": 1, "layerwise": True}},
        ],
    }
}


def test_needs_are_those_of_the_published_simulation() -> None:
    """Table 4 of Streaming DiLoCo, 1B at 80 %: 152.6, 6.2 and 0.9 Gbit/s, each within 1.5 grid steps of 20.7 %."""
    needs = api.link_needs(SCENARIO, (0.8,))
    found = {one.algorithm: (one.bytes_per_s[0] or 0.0) * 8e-9 for one in needs.algorithms}
    for name, printed in (("data_parallel", 152.6), ("diloco", 6.2), ("streaming-diloco", 0.954)):
        assert 1.207**-1.5 <= found[name] / printed <= 1.207**1.5
    assert all(one.utilisation is None for one in needs.algorithms)


def test_a_link_with_latency_may_never_be_enough() -> None:
    given = {"learning": SCENARIO["learning"] | {"link": {"bandwidth": "1 Gb/s", "latency": "100 ms"}}}
    needs = {one.algorithm: one for one in api.link_needs(given, (0.5, 0.95)).algorithms}
    assert needs["data_parallel"].bytes_per_s == (None, None)
    rates = needs["diloco"].bytes_per_s
    assert rates[0] is not None and rates[1] is not None and rates[0] < rates[1]
    assert 0.0 < (needs["data_parallel"].utilisation or 0.0) < (needs["diloco"].utilisation or 0.0) < 1.0


def test_everything_that_is_wrong_is_said_at_once() -> None:
    wrong = {"learning": SCENARIO["learning"] | {"step_s": None, "algorithms": ["fedbuff"]}}
    with pytest.raises(BadInput) as caught:
        api.link_needs(wrong, (1.5,))
    text = str(caught.value)
    assert "--bandwidth-for" in text and "learning.step_s" in text and "lock-step" in text


def test_the_option_prints_a_table_or_json(tmp_path: Any) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SCENARIO))
    asked = ["learn", str(path), "--bandwidth-for", "0.5", "--bandwidth-for", "0.9"]
    table = CliRunner().invoke(app, asked)
    assert table.exit_code == 0 and "diloco" in table.stdout and "Gb/s" in table.stdout
    plain = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert [x["utilisation"] for x in plain["algorithms"]["diloco"]["bandwidth_for"]] == [0.5, 0.9]


def test_rates_are_told_in_bits() -> None:
    assert [rate_text(x) for x in (1.25e10, 4e4, 1.0, None)] == ["100 Gb/s", "320 kb/s", "8 b/s", "none is enough"]


def test_presets_are_links_and_unknown_ones_are_one_problem() -> None:
    wan = {"learning": SCENARIO["learning"] | {"link": "wan"}}
    faster = {"learning": SCENARIO["learning"] | {"link": {"preset": "wan", "bandwidth": "100 Gb/s"}}}
    slow, fast = ({x.algorithm: x.utilisation for x in api.link_needs(s, (0.5,)).algorithms} for s in (wan, faster))
    assert 0.0 < slow["diloco"] < fast["diloco"] < 1.0
    with pytest.raises(BadInput) as caught:
        api.link_needs({"learning": SCENARIO["learning"] | {"link": "wann"}}, (0.5,))
    assert len(caught.value.problems) == 1 and "did you mean 'wan'" in str(caught.value)
