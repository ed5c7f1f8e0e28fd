"""Names that changed: the older one works with one warning, and a file is brought to the newer one."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
import yaml

from windtunnel import api, versions
from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.scenarios.load import load_scenario
from windtunnel.scenarios.renames import migrated
from windtunnel.serving.batching import POLICIES
from windtunnel.versions import OlderName, Renamed

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama3-8b-8xh100-fsdp.yaml"
TEXT = """\
# a comment that stays
model: meta-llama/Llama-3.1-8B
cluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 8}
training: {seq_len: 8192, global_batch: 8, precision: bf16}
plan:
  zero: 3  # and this one
  micro_size: 1   # sequences
"""


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> None:
    """An artificial field, option and id under older names."""
    table = [
        Renamed("field", "plan.micro_size", "plan.mbs", "0.3"),
        Renamed("field", "serving.pools.*.count", "serving.pools.*.instances", "0.3"),
        Renamed("option", "train --as-json", "train --json", "0.3"),
        Renamed("policies", "vllm_old", "vllm_v0", "0.3"),
    ]
    monkeypatch.setattr(versions, "RENAMED", table)
    monkeypatch.setattr(versions, "_WARNED", set())


def test_an_older_field_is_read_as_the_newer_one_with_one_warning(older: None, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT, "utf-8")
    with pytest.warns(OlderName, match=r"'plan.micro_size' is called 'plan.mbs' now; .* until release 0.3") as seen:
        first = load_scenario(path)
        second = load_scenario(path, ["plan.micro_size=2"])
    assert len(seen) == 1
    assert (first.plan.mbs, second.plan.mbs) == (1, 2)


def test_both_names_at_once_are_refused(older: None, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT + "  mbs: 1\n", "utf-8")
    with pytest.raises(BadInput, match=r"is the older name of plan\.mbs"):
        load_scenario(path)
    with pytest.raises(BadInput, match=r"is the older name of plan\.mbs"):
        migrated(path)


def test_a_problem_of_an_older_field_names_its_line(older: None, tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(TEXT.replace("micro_size: 1", "micro_size: none"), "utf-8")
    with pytest.warns(OlderName), pytest.raises(BadInput, match=r"plan\.mbs.*s\.yaml:7"):
        load_scenario(path)


def test_older_options_and_ids_work(older: None, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(OlderName, match="option 'train --as-json'"):
        assert run(["train", str(EXAMPLE), "--as-json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == versions.RESULT_SCHEMA
    known = POLICIES.list()[0]
    versions.RENAMED.append(Renamed("policies", "older-id", known, "0.3"))
    with pytest.warns(OlderName, match="id 'older-id'"):
        assert POLICIES.get("older-id") is POLICIES.get(known)
    assert "older-id" in POLICIES


def test_migrate_rewrites_names_and_keeps_comments(
    older: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yaml"
    pools = "serving: {pools: [{count: 2}, {count: 3, name: 'count: 4'}]}\n"
    path.write_text(TEXT, "utf-8")
    assert run(["schema", "migrate", str(path)]) == 0
    assert "line 7: plan.micro_size → plan.mbs" in capsys.readouterr().out
    assert path.read_text("utf-8") == TEXT.replace("micro_size", "mbs")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_scenario(path).plan.mbs == 1
    assert run(["schema", "migrate", str(path)]) == 0
    assert path.read_text("utf-8") == TEXT.replace("micro_size", "mbs")
    block = tmp_path / "block.yaml"
    block.write_text(
        "serving:\n  pools:\n    - count: 2  # two\n      name: a\n    - name: b\n      'count': 3\n", "utf-8"
    )
    assert yaml.safe_load(migrated(block).text)["serving"]["pools"] == [
        {"instances": 2, "name": "a"},
        {"name": "b", "instances": 3},
    ]
    flow = tmp_path / "flow.yaml"
    flow.write_text(pools, "utf-8")
    with pytest.raises(BadInput, match="cannot be renamed in place"):
        migrated(flow)


@pytest.mark.parametrize(
    ("stated", "rule"), [("99", "later release"), ("0", "must be 1"), ("true", "must be 1"), ("[1]", "must be 1")]
)
def test_a_version_that_is_not_known_is_not_migrated(stated: str, rule: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f"name: x\nschema_version: {stated}\n")
    with pytest.raises(BadInput, match=rf"{rule}.*a\.yaml:2") as told:
        migrated(file)
    assert told.value.problems[0].field == "schema_version"


def test_results_carry_their_schema_and_rerun_reads_older_and_refuses_later_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = api.simulate_training(EXAMPLE).to_dict()
    assert result["schema_version"] == versions.RESULT_SCHEMA
    path = tmp_path / "r.json"
    path.write_text(json.dumps({k: v for k, v in result.items() if k != "schema_version"}), "utf-8")
    assert run(["rerun", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["equal"]
    assert (report["schema_stored"], report["schema_now"]) == (0, versions.RESULT_SCHEMA)
    assert report["schema_changes"] == list(versions.RESULT_CHANGES.values())
    path.write_text(json.dumps(result | {"schema_version": versions.RESULT_SCHEMA + 1}), "utf-8")
    assert run(["rerun", str(path)]) == 2
    assert "later release" in capsys.readouterr().err


def test_an_older_field_of_an_entry_of_a_list_is_set_under_its_newer_name(older: None) -> None:
    with pytest.warns(OlderName):
        assert versions.current_path("serving.pools.3.count") == "serving.pools.3.instances"
    assert versions.current_path("serving.pools.3.role") == "serving.pools.3.role"


SERVED = Path(__file__).parents[1] / "scenarios" / "serve" / "rate.yaml"


@pytest.mark.parametrize(
    "words",
    [
        ("fit", EXAMPLE),
        ("explain", EXAMPLE),
        ("explain", EXAMPLE, "--class", "gemm"),
        ("explain", EXAMPLE, "--term", "gemm"),
        ("compare", EXAMPLE, "--set", "training.global_batch=16"),
        ("explain", SERVED),
        ("compare", SERVED, "--set", "serving.traffic.num_requests=64"),
    ],
)
def test_what_json_prints_carries_its_schema(words: tuple[object, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*(str(word) for word in words), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == versions.RESULT_SCHEMA


def test_rerun_names_keys_that_came_and_went_and_by_how_much_figures_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = api.simulate_training(EXAMPLE).to_dict()
    older = {k: v for k, v in result.items() if k not in ("schema_version", "mfu")}
    path = tmp_path / "r.json"
    path.write_text(json.dumps(older | {"speed": 3, "step_time_s": result["step_time_s"] / 1.25}), "utf-8")
    assert run(["rerun", str(path), "--json"]) == 4
    report = json.loads(capsys.readouterr().out)
    assert (report["keys_gone"], report["keys_new"]) == (["speed"], ["mfu"])
    moved = {one["field"]: one["change"] for one in report["differences"]}
    assert moved == {"step_time_s": pytest.approx(0.25)}
    assert run(["rerun", str(path)]) == 4
    shown = capsys.readouterr().out
    assert "new in results: mfu" in shown and "+25 %" in shown
