"""The comparison of public files with their expected readings, on small files of our own in a repository of our own."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import corpus_run
import draw_public_files
import public_files
import pytest
import yaml
from public_files import ABSENT, FIELDS, Entry, Snapshots, differences, outcome

pytestmark = pytest.mark.conformance
HERE = Path(__file__).parent
SERVE = "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --max-model-len 8192 --max-num-seqs 64\n"
TEXTS = {
    "serve.sh": SERVE,
    "other.sh": SERVE.replace("size 2", "size 4"),
    "config.json": json.dumps(
        {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
        | {"intermediate_size": 11008, "vocab_size": 32000}
    ),
    "dpo.txt": "no launch file of any kind\n",
    "unknown.sh": SERVE.replace("meta-llama/Llama-3.1-8B", "nobody/nothing-9B"),
}
SAYS = {"format": "vllm", "model": "meta-llama/Llama-3.1-8B", "task": "serve", "tp": 2, "length": 8192, "batch": 64}


def entry(path: str, text: str, refused: tuple[str, ...] = (), **says: Any) -> Entry:
    """An entry of the draw `first`."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Entry("own/files", "HEAD", path, digest, "first", dict.fromkeys(FIELDS, ABSENT) | says, refused)


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    """A clone with the small files."""
    clone = tmp_path / "clones" / "own" / "files"
    clone.mkdir(parents=True)
    for name, text in TEXTS.items():
        (clone / name).write_text(text, "utf-8")
    for words in ("init -q", "add .", "-c user.name=n -c user.email=n@example.org commit -q -m files"):
        subprocess.run(["git", "-C", str(clone), *words.split()], check=True)
    return Snapshots(tmp_path / "clones", tmp_path / "laid")


def result(snapshots: Snapshots, asked: Entry) -> public_files.Outcome:
    return outcome(asked, snapshots.file(asked))


def test_a_file_is_right_once_the_option_that_the_message_names_is_given(snapshots: Snapshots) -> None:
    found = result(snapshots, entry("serve.sh", SERVE, **SAYS))
    assert (found.result, found.options, found.resolved) == ("given", ("--device",), True)
    assert found.cpu_s > 0


def test_a_field_that_differs_is_silently_wrong(snapshots: Snapshots) -> None:
    found = result(snapshots, entry("other.sh", TEXTS["other.sh"], **SAYS))
    assert (found.result, found.why) == ("wrong", "tp: the file says 2, the import 4")


def test_a_field_that_the_file_does_not_say_may_not_be_read_from_a_line(snapshots: Snapshots) -> None:
    found = result(snapshots, entry("serve.sh", SERVE, **{**SAYS, "batch": ABSENT}))
    assert (found.result, found.why) == ("wrong", "batch: the file does not say, the import 64")


def test_a_configuration_of_a_model_needs_no_option(snapshots: Snapshots) -> None:
    says = {"format": "hf", "model": "32x4096", "task": "config"}
    assert result(snapshots, entry("config.json", TEXTS["config.json"], **says)).result == "right"


def test_a_refusal_is_right_where_its_message_holds_the_word(snapshots: Snapshots) -> None:
    says = {"format": "trl", "task": "dpo"}
    known = result(snapshots, entry("dpo.txt", TEXTS["dpo.txt"], ("recognised",), **says))
    other = result(snapshots, entry("dpo.txt", TEXTS["dpo.txt"], ("direct preference",), **says))
    assert (known.result, other.result) == ("right", "refused")


def test_a_model_that_nobody_knows_is_given_once_and_then_refused(snapshots: Snapshots) -> None:
    found = result(snapshots, entry("unknown.sh", TEXTS["unknown.sh"], **{**SAYS, "model": "nobody/nothing-9B"}))
    assert (found.result, found.resolved) == ("refused", False)


def test_a_file_that_is_not_as_it_was_is_missing(snapshots: Snapshots) -> None:
    assert result(snapshots, entry("serve.sh", SERVE + "\n", **SAYS)).result == "missing"
    assert result(snapshots, entry("gone.sh", SERVE, **SAYS)).result == "missing"


def test_options_are_taken_from_a_message_and_from_no_longer_name(snapshots: Snapshots) -> None:
    asked = entry("serve.sh", SERVE, **SAYS)
    text = "--model-path is read; quant decides the precision, --set serving.precision…=VALUE states it, "
    text += "--without quant goes on without it"
    assert public_files._asked(asked, text, {}) == {"without": ["quant"]}
    assert public_files._asked(asked, f"{text}; --device is required", {}) == {"device": [public_files.DEVICE]}
    assert public_files._asked(asked, text, {"without": ["quant"]}) == {}
    assert public_files._asked(asked, "--without rest goes on without them", {}) == {}


def test_the_batch_follows_from_accumulation_and_devices() -> None:
    says = {"format": "axolotl", "task": "sft", "devices": "1x8", "batch": {"mbs": 2, "acc": 4}, "split": {"zero": 3}}
    scenario: dict[str, Any] = {
        "cluster": {"nodes": 1, "devices_per_node": 8},
        "training": {"phase": "sft", "global_batch": 64},
        "plan": {"zero": 3, "mbs": 2},
    }
    asked = entry("x.yaml", "", **says)
    assert differences(asked, {"format": "axolotl", "scenario": scenario}) == []
    scenario["training"]["global_batch"] = 32
    assert len(differences(asked, {"format": "axolotl", "scenario": scenario})) == 1


def test_a_step_on_preferences_has_two_sequences_a_row_and_a_reference() -> None:
    says = {"format": "trl", "task": "dpo", "batch": {"mbs": 2, "acc": 4}}
    training: dict[str, Any] = {"phase": "sft", "global_batch": 16, "reference_passes": 1}
    scenario = {"cluster": {"nodes": 1, "devices_per_node": 1}, "training": training, "plan": {"mbs": 4}}
    asked = entry("x.yaml", "", ("dpo",), **says)
    assert differences(asked, {"format": "trl", "scenario": scenario}) == []
    del training["reference_passes"]
    found = differences(asked, {"format": "trl", "scenario": scenario})
    assert "task: the file says dpo, the import sft" in found


def test_the_page_holds_counts_by_format_and_says_that_few_files_were_read(
    snapshots: Snapshots, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = [entry("serve.sh", SERVE, **SAYS), entry("gone.sh", SERVE, **SAYS)]
    items = [{"from": "own/files", "path": x.path, "sha256": x.sha256, "draw": x.draw, **x.expected} for x in listed]
    commit = subprocess.run(
        ["git", "-C", str(tmp_path / "clones/own/files"), "rev-parse", "HEAD"], capture_output=True, check=True
    ).stdout.decode()
    data = {"repositories": {"own/files": commit.strip()}, "files": items}
    (tmp_path / "list.yaml").write_text(yaml.safe_dump(data), "utf-8")
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n{corpus_run.BEGIN}old{corpus_run.END}\nafter\n", "utf-8")
    words = ["--list", str(tmp_path / "list.yaml"), "--snapshots", str(tmp_path / "clones"), "--page", str(page)]
    assert corpus_run.main([*words, "--out", str(tmp_path / "out")]) == 0
    text = page.read_text("utf-8")
    assert text.startswith("# Before\n") and text.endswith("\nafter\n") and "old" not in text
    assert "1 of 2 files read, fewer than 380" in text
    assert re.search(r"\| vllm \| 2 \| 0 \| 1 \| 0 \| 0 \| 1 \|", text)
    (first, _) = (json.loads(line) for line in (tmp_path / "out" / "outcomes.jsonl").read_text("utf-8").splitlines())
    assert (first["path"], first["result"]) == ("serve.sh", "given")


def test_what_a_scenario_leaves_to_its_recipe_counts_as_read() -> None:
    training = {"framework": "megatron_bridge", "recipe": "ministral3_3b_peft_config"}
    scenario = {"training": training, "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 4}}
    got = public_files.reading({"format": "megatron_bridge", "scenario": scenario}, dict.fromkeys(FIELDS, ABSENT))
    assert (got["model"], got["task"], got["length"]) == ("mistralai/Ministral-3-3B-Instruct-2512", "lora", 4096)
    assert got["devices"] == "1x4"


def test_a_seed_draws_the_same_files_whatever_else_is_searched(snapshots: Snapshots) -> None:
    folder = snapshots.git_folder("own/files")
    assert folder is not None
    search = {"pattern": "vllm serve", "endings": [".sh", ".json"], "paths_without": "unknown"}
    found = draw_public_files.candidates(folder, search)
    assert found == ["other.sh", "serve.sh"]
    assert draw_public_files.drawn(found, 7, "own/files", 5) == found
    many = [f"{n}.sh" for n in range(99)]
    taken = draw_public_files.drawn(many, 7, "own/files", 5)
    assert len(taken) == 5 and taken == draw_public_files.drawn(many, 7, "own/files", 5)
    assert taken != draw_public_files.drawn(many, 8, "own/files", 5)


def test_the_list_names_each_file_once_and_holds_no_place_of_a_machine() -> None:
    listed = public_files.entries(HERE / "public_files.yaml")
    assert len({(x.repository, x.path) for x in listed}) == len(listed)
    for each in listed:
        assert re.fullmatch(r"[0-9a-f]{40}", each.commit) and re.fullmatch(r"[0-9a-f]{64}", each.sha256)
        assert each.draw in corpus_run.DRAWS
        assert not re.search(r"(^|[ :\"'])/(home|mnt|data|root|Users)/", json.dumps(each.expected)), each.path
    search = yaml.safe_load((HERE / "public_draw.yaml").read_text("utf-8"))["later"]
    later = Counter(x.repository for x in listed if x.draw == "later")
    assert all(count <= search["most_per_repository"] for count in later.values())
    assert set(later) <= set(search["repositories"])
    assert not set(later) & {x.repository for x in listed if x.draw == "first"}
    assert 3 * sum(later.values()) >= len(listed) >= 400
