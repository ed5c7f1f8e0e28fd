"""What an import does not read: settings that decide stop it, with the option that settles it; others are listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.cli.main import run
from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.severity import topic_of

SERVE = "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --max-num-seqs 64 "


def imported(text: str, file: str = "serve.sh", **wanted: object) -> Launch:
    return formats.read(formats.detect(text, file), text, file, Wanted(device="h100-sxm-80gb", **wanted))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "topic"),
    [
        ("--shiny-tensor-parallel-size", "parallelism"),
        ("new_model_name", None),
        ("model_path", "model"),
        ("train.micro_batch_size", "batch"),
        ("maxSeqLen", "length"),
        ("--kv-cache-dtype", "precision"),
        ("lora_dim", "adapter"),
        ("num_nodes", "nodes"),
        ("rlhf_type", "algorithm"),
        ("eval_batch_size", None),
        ("save_dtype", None),
        ("tokenizer_model", None),
        ("lora_alpha", None),
        ("warmup_steps", None),
        ("colour", None),
    ],
)
def test_a_name_says_what_hangs_on_it(name: str, topic: str | None) -> None:
    found = topic_of(name, "8")
    assert (found.name if found else None) == (topic if name != "new_model_name" else "model")


@pytest.mark.parametrize("value", ["False", "none", "0", ""])
def test_a_setting_that_is_off_decides_nothing(value: str) -> None:
    assert topic_of("load_in_4bit", value) is None
    assert topic_of("load_in_4bit", "True") is not None


def test_a_setting_that_decides_stops_and_names_what_settles_it() -> None:
    launch = imported(SERVE + "--shiny-tensor-parallel-size 4 --colour blue")
    [problem] = launch.problems
    assert problem.field == "shiny-tensor-parallel-size"
    assert problem.line == 1
    assert "--set plan…=VALUE" in problem.rule
    assert "--without shiny-tensor-parallel-size" in problem.rule
    assert [left.name for left in launch.unread] == ["shiny-tensor-parallel-size", "colour"]


def test_what_settles_it_goes_on() -> None:
    text = SERVE + "--shiny-tensor-parallel-size 4"
    assert not imported(text, without=("shiny_tensor_parallel_size",)).problems
    set_by_hand = imported(text, fields={"serving.pools": [{"plan": {"tp": 4}}]})
    assert not set_by_hand.problems
    assert set_by_hand.origin["serving.pools"] == ("--set", None)
    assert not imported(SERVE + "--my-max-length 5", seq_len=5).problems
    assert imported(SERVE + "--my-max-length 5").problems


def test_adapters_of_a_server_stop() -> None:
    [problem] = imported(SERVE + "--enable-lora --max-lora-rank 16").problems
    assert "decides the adapter" in problem.rule
    assert not imported(SERVE + "--enable-lora", without=("enable-lora",)).problems


def test_a_file_that_is_not_read_for_the_most_part_stops() -> None:
    few = imported("vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 8 --colour 1 --shape 2")
    assert not few.problems
    most = imported("vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 8 --colour 1 --shape 2 --size 3 --form 4")
    [problem] = most.problems
    assert "4 of 5 settings are not known" in problem.rule
    assert not imported(
        "vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 8 --colour 1 --shape 2 --size 3", without=("rest",)
    ).problems


def test_the_verb_folds_what_is_listed_and_takes_both_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "serve.sh"
    script.write_text(SERVE + "--colour blue --shape round --big-lora true")
    assert run(["import", str(script), "--device", "h100-sxm-80gb"]) == 2
    said = capsys.readouterr().err
    assert sum(line.startswith("not read") for line in said.splitlines()) == 1
    assert "not read (3): colour blue" in said
    assert "--without big-lora" in " ".join(said.split())
    more = ["--without", "big-lora", "--set", "serving.traffic.rate_per_s=2", "-o", str(tmp_path / "o.yaml")]
    assert run(["import", str(script), "--device", "h100-sxm-80gb", *more]) == 0
    assert "rate_per_s: 2" in (tmp_path / "o.yaml").read_text()
    assert run(["import", str(script), "--set", "colour=2", "--device", "h100-sxm-80gb"]) == 2
    assert "must be KEY=VALUE" in " ".join(capsys.readouterr().err.split())


def test_a_sourced_file_below_the_script_is_read_and_not_executed(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    mark = tmp_path / "ran"
    (tmp_path / "models" / "m.sh").write_text(f"touch {mark}\nTP=4\nMODEL=(meta-llama/Llama-3.1-8B)\n")
    (tmp_path.parent / "outside.sh").write_text("TP=8\n")
    script = tmp_path / "serve.sh"
    text = 'DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\nsource "${DIR}/models/m.sh"\n'
    text += 'source ../outside.sh\nsource models/none.sh\nvllm serve "${MODEL[0]}" -tp $TP\n'
    script.write_text(text.replace("${MODEL[0]}", "${MODEL[@]}"))
    launch = imported(script.read_text(), str(script))
    assert launch.fields["serving.pools.0.plan.tp"] == 4
    assert launch.fields["model"] == "meta-llama/Llama-3.1-8B"
    assert not mark.exists()


def test_a_text_in_a_variable_is_a_command() -> None:
    text = "read -r -d '' COMMAND <<EOF\nvllm serve meta-llama/Llama-3.1-8B \\\n  -tp 2\nEOF\n$COMMAND\n"
    launch = imported(text)
    assert launch.fields["serving.pools.0.plan.tp"] == 2


def test_a_topic_is_settled_by_its_option_its_field_or_a_field_below() -> None:
    topic = topic_of("tensor_parallel_size")
    assert topic is not None and topic.fields[0] == "plan"
    assert not topic.settled(Wanted())
    assert topic.settled(Wanted(fields={"plan": {"tp": 2}}))
    assert topic.settled(Wanted(fields={"plan.tp": 2}))
    assert not topic.settled(Wanted(fields={"planned.tp": 2, "model": "a"}))


def test_a_long_name_is_looked_at_once() -> None:
    assert topic_of("a_" * 100_000 + "b") is None
    topic = topic_of("a_" * 100_000 + "tp_size")
    assert topic is not None and topic.name == "parallelism"


def test_a_table_without_bearing_hides_no_setting_that_decides() -> None:
    from windtunnel.importers.settings import Settings

    launch = Launch(format="verl", title="verl", file="a.yaml")
    Settings(launch, {"data.sort_by": "x", "data.new_max_length": 4096}, {}).rest()
    assert [left.name for left in launch.unread if left.unknown] == ["data.new_max_length"]
