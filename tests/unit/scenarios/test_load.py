"""Scenario files: everything wrong is said at once, with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from windtunnel.errors import BadInput, Problem
from windtunnel.scenarios.load import dump_scenario, load_cluster_ref, load_model_spec, load_scenario
from windtunnel.scenarios.yaml_text import MAX_BYTES
from windtunnel.specs.schema import scenario_schema
from windtunnel.specs.workload import TrainingSpec

ROOT = Path(__file__).parents[3]
WRONG = """\
model: {name: m, hidden_sise: 4, hidden_size: 8, num_hidden_layers: 2, vocab_size: 10}
cluster:
  device: h100-sxm-80gb
  nodes: -1
plan:
  zerro: 2
"""
GOOD: dict[str, Any] = {"model": "m", "cluster": {"device": "d"}, "training": {"seq_len": 8, "global_batch": 4}}


def problems_of(source: Any, overrides: tuple[str, ...] = ()) -> tuple[Problem, ...]:
    """What is wrong with a scenario; a string is written to a file first."""
    with pytest.raises(BadInput) as caught:
        load_scenario(source, overrides)
    assert caught.value.exit_code == 2
    return caught.value.problems


def written(tmp_path: Path, text: str, name: str = "s.yaml") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def test_three_mistakes_are_reported_with_file_line_value_and_nearest_name(tmp_path: Path) -> None:
    file = written(tmp_path, WRONG)
    problems = problems_of(file)
    assert {p.field: (p.line, p.value, p.nearest) for p in problems} == {
        "model.hidden_sise": (1, 4, "hidden_size"),
        "cluster.nodes": (4, -1, None),
        "plan.zerro": (6, 2, "zero"),
    }
    assert all(p.file == str(file) for p in problems)


def test_round_trip_with_shorthands_and_overrides(tmp_path: Path) -> None:
    cluster = {"device": "d", "memory_bytes": "80 GiB"}
    data = {"model": "m", "cluster": cluster, "plan": {"recompute": "full", "vpp": None}}
    scenario = load_scenario(data, ["plan.tp=4", "plan.stage_layers=[1, 2]"])
    assert (scenario.plan.tp, scenario.plan.stage_layers, scenario.plan.recompute.policy) == (4, (1, 2), "full")
    assert data["plan"] == {"recompute": "full", "vpp": None}, "the caller's mapping is left alone"
    assert load_scenario(written(tmp_path, dump_scenario(scenario))) == scenario


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "examples").glob("*.yaml")))
def test_examples_survive_a_round_trip_as_yaml_and_as_json(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(ROOT / "examples" / name)
    text = dump_scenario(scenario)
    assert load_scenario(written(tmp_path, text)) == scenario
    as_json = json.dumps(yaml.safe_load(text), indent="\t")
    assert load_scenario(written(tmp_path, as_json, "s.json")) == scenario


# -- files are data, within limits


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("model: !!python/object:os.x {}", "tags and merge keys are not allowed"),
        ("model: !!binary aGk=", "tags and merge keys are not allowed"),
        ("a: &a {b: 1}\nc: {<<: *a}", "tags and merge keys are not allowed"),
        ("model: a\nmodel: b", "is given twice"),
        ("model: [", "not valid YAML"),
        ("model: a\n\tb: c", "not valid YAML"),
        ("a: &a [*a]", "may not contain itself"),
        ("a: *unknown", "not valid YAML"),
        ("- a\n- b", "must be a mapping of fields"),
        ("just text", "must be a mapping of fields"),
        ("a: 1\n---\nb: 2", "not valid YAML"),
        ("a: \x00", "not valid YAML"),
        ("a: " + "[" * 100 + "]" * 100, "levels"),
        ("a: &a 1\nb: [" + "*a, " * 200 + "]", "aliases"),
        (
            "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
            + "".join(f"{x}: &{x} [{', '.join([f'*{y}'] * 10)}]\n" for y, x in zip("abcde", "bcdef", strict=True)),
            "values",
        ),
    ],
)
def test_unsafe_or_ambiguous_yaml_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    problems = problems_of(written(tmp_path, text))
    assert any(rule in p.rule for p in problems), problems
    assert all(p.file is not None for p in problems)


def test_duplicate_keys_and_syntax_errors_name_their_line(tmp_path: Path) -> None:
    (problem, *_) = problems_of(written(tmp_path, "model: a\nplan:\n  tp: 1\n  tp: 2\n"))
    assert (problem.field, problem.line) == ("plan.tp", 4)
    (problem,) = problems_of(written(tmp_path, "model: a\nplan: {tp: 1\ncluster: x\n"))
    assert problem.line == 2  # where the bracket opens


def test_size_and_encoding_are_checked_before_parsing(tmp_path: Path) -> None:
    file = tmp_path / "big.yaml"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    assert "at most" in problems_of(file)[0].rule
    file.write_bytes(b"model: \xff")
    assert "UTF-8" in problems_of(file)[0].rule
    assert "cannot be read" in problems_of(tmp_path / "absent.yaml")[0].rule
    assert "cannot be read" in problems_of(tmp_path)[0].rule


def test_a_mapping_that_contains_itself_is_refused() -> None:
    data: dict[str, Any] = dict(GOOD)
    data["search"] = data
    assert "levels" in problems_of(data)[0].rule


def test_an_empty_file_misses_the_required_fields(tmp_path: Path) -> None:
    problems = problems_of(written(tmp_path, ""))
    assert {(p.field, p.rule) for p in problems} == {("model", "is required"), ("cluster", "is required")}


def test_numbers_as_people_and_json_write_them(tmp_path: Path) -> None:
    text = "model: m\ncluster: {device: d, memory_bytes_per_s: 3e12}\ntraining: {seq_len: 8, global_batch: 1e3}\n"
    scenario = load_scenario(written(tmp_path, text))
    assert scenario.training is not None and scenario.training.global_batch == 1000
    assert scenario.cluster.memory_bytes_per_s == 3e12  # type: ignore[union-attr]


# -- unions: only the branch that was meant is spoken of


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"model": {"config": "c.json", "num_layers": 3}},
            [("model.num_layers", "unknown field", "num_hidden_layers")],
        ),
        (
            {"model": {"confg": "c.json"}},
            [("model.confg", "unknown field", "config"), ("model.config", "is required", None)],
        ),
        ({"model": [1]}, [("model", "must be a name or a mapping", None)]),
        ({"model": 7}, [("model", "must be a name or a mapping", None)]),
        ({"model": None}, [("model", "must be a name or a mapping", None)]),
        ({"cluster": {"device": "d", "node": 2}}, [("cluster.node", "unknown field", "nodes")]),
        (
            {"cluster": {"device": "d", "scale_out": {"nics": 4, "nic_bytes_per_s": 1e9}}},
            [
                ("cluster.scale_out.nics", "unknown field", "nics_per_node"),
                ("cluster.scale_out.nics_per_node", "is required", None),
            ],
        ),
        ({"techniques": ["a", {"b": 3}]}, [("techniques.1.b", "must be a mapping of fields to values", None)]),
        ({"techniques": ["a", 3]}, [("techniques.1", "must be a name or a mapping", None)]),
        ({"plan": {"dp": "eight"}}, [("plan.dp", "must be a whole number or 'auto'", None)]),
        ({"plan": {"dp": 2.5}}, [("plan.dp", "must be a whole number", None)]),
        ({"plan": {"recompute": "ful"}}, None),
        ({"training": {"seq_len": 8, "global_batch": 4, "precision": "bf61"}}, None),
    ],
)
def test_union_errors(change: dict[str, Any], expected: list[tuple[str, str, str | None]] | None) -> None:
    problems = problems_of(GOOD | change)
    if expected is None:
        (problem,) = problems
        assert problem.rule.startswith("must be '") and problem.nearest in ("full", "bf16")
    else:
        assert sorted((p.field, p.rule, p.nearest) for p in problems) == sorted(expected)


def test_model_problems_come_apart(tmp_path: Path) -> None:
    text = """\
model:
  name: m
  hidden_size: 8
  num_hidden_layers: 2
  vocab_size: 10
  num_attention_heads: 3
  num_key_value_heads: 2
  num_experts: 4
cluster: {device: d}
"""
    problems = problems_of(written(tmp_path, text))
    assert {(p.field, p.line) for p in problems} == {
        ("model.num_attention_heads", 6),
        ("model.num_key_value_heads", 7),
        ("model.num_experts_per_tok", 1),
        ("model.moe_intermediate_size", 1),
    }


@pytest.mark.parametrize("value", ["80 GBB", "fast", "-80 GB", -1, float("nan"), True, [1]])
def test_quantities_need_a_known_unit_and_may_not_be_negative(value: Any) -> None:
    (problem,) = problems_of(GOOD | {"cluster": {"device": "d", "memory_bytes": value}})
    assert problem.field == "cluster.memory_bytes"


# -- overrides


def test_overrides_reach_into_mappings_lists_and_absent_parents() -> None:
    data = GOOD | {"techniques": ["a", "b"]}
    scenario = load_scenario(data, ["techniques.1=c", "plan.overlap.tp=true", "cluster.memory_bytes=80 GiB", "search="])
    assert scenario.techniques == ("a", "c")
    assert scenario.plan.overlap.tp is True
    assert scenario.cluster.memory_bytes == 80 * 2**30  # type: ignore[union-attr]


def test_bad_overrides_are_reported_beside_bad_fields() -> None:
    overrides = ("plan.tp", "techniques.0=x", "plan.pp=[", "plan.mbs=!!set {}", "plan.zero=9")
    problems = problems_of(GOOD | {"nam": 1, "techniques": []}, overrides)
    assert [(p.field, p.rule.split(":")[0]) for p in problems] == [
        ("--set", "must be path.to.field=value"),
        ("techniques.0", "no such field"),
        ("plan.pp", "not valid YAML"),
        ("plan.mbs", "tags and merge keys are not allowed, only plain data"),
        ("plan.zero", "must be at most 3"),
        ("nam", "unknown field"),
    ]
    located = next(p for p in problems if p.field == "plan.zero")
    assert (located.file, located.line) == ("--set plan.zero", None)


# -- parts on their own


def test_parts_load_from_files_of_their_own(tmp_path: Path) -> None:
    model = load_model_spec(written(tmp_path, "{name: m, hidden_size: 8, num_hidden_layers: 2, vocab_size: 10}"))
    assert model.kv_heads == 1
    assert load_cluster_ref(written(tmp_path, "{device: d, nodes: 2}")).nodes == 2
    with pytest.raises(BadInput, match=r"hidden_size: is required \(.*s.yaml:1\)"):
        load_model_spec(written(tmp_path, "{name: m, num_hidden_layers: 2, vocab_size: 10}"))


# -- schema


def test_the_published_schema_is_up_to_date() -> None:
    stored = json.loads((ROOT / "docs" / "generated" / "scenario.schema.json").read_text("utf-8"))
    assert stored == json.loads(json.dumps(scenario_schema())), "run `make docs`, and say what changed in the changelog"


def test_the_schema_describes_fields_and_short_forms() -> None:
    schema = scenario_schema()
    plan = schema["$defs"]["PlanSpec"]["properties"]
    assert plan["vpp"]["description"] == "Model chunks per pipeline stage."
    assert {"type": "boolean"} in plan["overlap"]["anyOf"]
    assert any("full" in form.get("enum", ()) for form in plan["recompute"]["anyOf"])
    assert set(schema["$defs"]["TrainingSpec"]["properties"]) == set(TrainingSpec.model_fields)
    memory = schema["$defs"]["ClusterRef"]["properties"]["memory_bytes"]["anyOf"][0]
    sizes = {"type": "number", "minimum": 1e3, "maximum": 1e21, "exclusiveMinimum": 0}
    assert memory == {"anyOf": [sizes, {"type": "string"}]}


def test_every_record_of_a_scenario_brings_its_descriptions() -> None:
    definitions = scenario_schema()["$defs"]
    assert definitions["ClusterRef"]["properties"]["device"]["description"].startswith("Catalogue id")
    for record, field in (("ProgramsSpec", "pause"), ("LearningSpec", "task"), ("SearchSpec", "objective")):
        assert definitions[record]["properties"][field]["description"]
    described = [
        "description" in field for record in definitions.values() for field in record.get("properties", {}).values()
    ]
    assert sum(described) > 0.7 * len(described)


def test_a_setting_makes_the_first_entry_of_a_list_that_the_file_leaves_out() -> None:
    """No other entry is made, and mappings on the way are."""
    from windtunnel.scenarios.load import fields_of

    made, _ = fields_of({"serving": {"engine": "vllm"}}, ("serving.pools[0].limits.max_num_seqs=8", "plan.tp=2"))
    assert made == {"serving": {"engine": "vllm", "pools": [{"limits": {"max_num_seqs": 8}}]}, "plan": {"tp": 2}}
    other, _ = fields_of({"serving": {}}, ("serving.pools.limits.1=8",))
    assert other == {"serving": {"pools": {"limits": {"1": 8}}}}
