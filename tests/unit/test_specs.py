"""Scenario files: everything wrong is said at once, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.errors import BadInput
from windtunnel.specs.loader import dump_scenario, load_scenario

WRONG = """\
model: {name: m, hidden_sise: 4, hidden_size: 8, num_hidden_layers: 2, vocab_size: 10}
cluster:
  device: h100-sxm-80gb
  nodes: -1
plan:
  zerro: 2
"""


def test_three_mistakes_are_reported_with_file_line_value_and_nearest_name(tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG)
    with pytest.raises(BadInput) as caught:
        load_scenario(file)
    found = {p.field: (p.line, p.value, p.nearest) for p in caught.value.problems}
    assert found == {
        "model.hidden_sise": (1, 4, "hidden_size"),
        "cluster.nodes": (4, -1, None),
        "plan.zerro": (6, 2, "zero"),
    }
    assert caught.value.exit_code == 2
    assert all(p.file == str(file) for p in caught.value.problems)


def test_round_trip_with_shorthands_and_overrides(tmp_path: Path) -> None:
    cluster = {"device": "d", "memory_bytes": "80 GiB"}
    data = {"model": "m", "cluster": cluster, "plan": {"recompute": "full", "vpp": None}}
    scenario = load_scenario(data, ["plan.tp=4", "plan.stage_layers=[1, 2]"])
    assert (scenario.plan.tp, scenario.plan.stage_layers, scenario.plan.recompute.policy) == (4, (1, 2), "full")
    file = tmp_path / "again.yaml"
    file.write_text(dump_scenario(scenario))
    assert load_scenario(file) == scenario


@pytest.mark.parametrize("text", ["model: !!python/object:os.x {}", "model: a\nmodel: b", "model: [", "a: &a [*a]"])
def test_unsafe_or_ambiguous_yaml_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(BadInput):
        load_scenario(file)
