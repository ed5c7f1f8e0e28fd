"""What a launch file names is read below its folder or its repository, never through a link, and never without end."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from windtunnel.cli.main import run
from windtunnel.errors import BadInput
from windtunnel.files.scope import Scope, confined
from windtunnel.importers import launched, named_files
from windtunnel.importers.launch import Launch
from windtunnel.importers.launch_text import fenced_blocks, written_files
from windtunnel.importers.named_files import beside, text_below, text_beside
from windtunnel.importers.server_command import Starts, commands
from windtunnel.importers.shell import read_script

SECRET = "CANARY"
TUNED = "model_name_or_path: {}\nstage: sft\ndo_train: true\nfinetuning_type: full\ncutoff_len: 2048\ndeepspeed: {}\n"
RL = "policy: {{model_name: meta-llama/Llama-3.1-8B}}\ngrpo: {{num_prompts_per_step: 2}}\ndefaults: {}\n"
HOSTILE = {
    "source": "source {}.sh\nvllm serve $TP\n",
    "vllm": "vllm serve meta-llama/Llama-3.1-8B --config {}.yaml\n",
    "sglang": "python -m sglang.launch_server --model-path x --config {}.yaml\n",
    "trtllm": "trtllm-serve meta-llama/Llama-3.1-8B --extra_llm_api_options {}.yaml\n",
    "accelerate": "accelerate launch --config_file {}.yaml sft.py --model_name_or_path meta-llama/Llama-3.1-8B\n",
    "trl": "trl sft --config {}.yaml\n",
    "llama_factory": "llamafactory-cli train {}.yaml\n",
    "swift": "swift sft --config {}.yaml\n",
    "open_instruct": "accelerate launch open_instruct/finetune.py {}.yaml\n",
    "torchtitan": "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file {}.toml\n",
    "nemo_rl": RL.format("{}.yaml"),
    "deepspeed": TUNED.format("meta-llama/Llama-3.1-8B", "{}.json"),
    "served": "vllm serve {}\n",
    "tuned": TUNED.format("{}", "none"),
}


@pytest.fixture
def given(tmp_path: Path) -> Path:
    secret = tmp_path / "secret"
    secret.mkdir()
    (tmp_path / "secret.sh").write_text(f"TP={SECRET}\n")
    (tmp_path / "secret.yaml").write_text(f"model_name_or_path: {SECRET}\nper_device_train_batch_size: {SECRET}\n")
    (tmp_path / "secret.json").write_text(json.dumps({"zero_optimization": {"stage": SECRET}}))
    (tmp_path / "secret.toml").write_text(f'[model]\nname = "{SECRET}"\n[training]\nlocal_batch_size = "{SECRET}"\n')
    (secret / "config.json").write_text(json.dumps({"model_type": SECRET, "architectures": [SECRET]}))
    folder = tmp_path / "given"
    folder.mkdir()
    for kind in ("", ".sh", ".yaml", ".json", ".toml"):
        (folder / f"link{kind}").symlink_to(tmp_path / f"secret{kind}")
    return folder


@pytest.mark.parametrize("where", ["../secret", "{}", "link", "x/../../secret"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_from_elsewhere_is_read(kind: str, where: str, given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = given / ("run.yaml" if kind in ("nemo_rl", "deepspeed", "tuned") else "run.sh")
    file.write_text(HOSTILE[kind].replace("{}", where.format(given.parent / "secret")))
    assert run(["import", str(file), "--device", "h100-sxm-80gb", "--devices-per-node", "8"]) in (0, 2)
    out, err = capsys.readouterr()
    assert SECRET not in out + err


def test_a_file_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "a.yaml").write_text("a: 1\n")
    script = tmp_path / "scripts" / "deep" / "run.sh"
    script.parent.mkdir(parents=True)
    assert text_beside(str(script), "configs/a.yaml") is None, "no repository: the folder alone"
    assert text_beside(str(script), "../../configs/a.yaml") is None
    (tmp_path / ".git").mkdir()
    assert text_beside(str(script), "configs/a.yaml") == "a: 1\n"
    assert text_beside(str(script), "../../configs/a.yaml") == "a: 1\n"
    assert beside(str(script), str(tmp_path / "configs" / "a.yaml")) == tmp_path / "configs" / "a.yaml"
    assert text_beside(str(script), f"{tmp_path}/configs/$X/../a.yaml") is None
    assert text_beside("-", "configs/a.yaml") is None
    for name in ("~/a.yaml", "a\0.yaml", ""):
        assert beside(str(script), name) is None


def test_the_repository_of_a_home_folder_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.yaml").write_text("a: 1\n")
    (tmp_path / "downloads").mkdir()
    assert text_beside(str(tmp_path / "downloads" / "run.sh"), "a.yaml") is None
    assert text_beside(str(tmp_path / "run.sh"), "a.yaml") == "a: 1\n", "its own folder"


def test_a_scope_is_not_widened_by_a_repository_around_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.yaml").write_text("a: 1\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "b.yaml").write_text("b: 1\n")
    with confined(Scope(readable=(root,))):
        assert text_beside(str(root / "run.sh"), "a.yaml") is None
        assert text_beside(str(root / "run.sh"), "b.yaml") == "b: 1\n"
        assert text_below(tmp_path, "a.yaml") is None


def test_pipes_and_large_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.sh")
    (tmp_path / "most.sh").write_text("#" * named_files.MOST_BYTES)
    (tmp_path / "more.sh").write_text("#" * (named_files.MOST_BYTES + 1))
    script = str(tmp_path / "run.sh")
    assert text_below(tmp_path, "fifo.sh") is None and beside(script, "fifo.sh") is None
    assert text_below(tmp_path, "more.sh") is None
    assert text_below(tmp_path, "most.sh") is not None and text_beside(script, "most.sh") is not None
    with pytest.raises(BadInput, match="1 MiB"):
        text_beside(script, "more.sh")


def test_files_that_source_each_other_end(tmp_path: Path) -> None:
    for i in range(20):
        (tmp_path / f"{i}.sh").write_text("".join(f"source {j}.sh\n" for j in range(20)) + f"X{i}=1\n")
    script = read_script("source 0.sh\n", {}, file=str(tmp_path / "run.sh"))
    assert "X0" in script.variables
    assert script.missing, "files beyond the most are listed as not read"


@pytest.mark.parametrize("step", ["A=$A$A\n", "A=(${A[@]} ${A[@]})\n", 'A+=" $A"\n'])
def test_variables_that_double_are_refused(step: str) -> None:
    with pytest.raises(BadInput, match="more than 100,000 words or 4,000,000 characters"):
        read_script("A=(xx yy)\n" + step * 60 + "run $A\n", {})


def test_texts_without_an_end_are_passed_once() -> None:
    count = 20_000
    assert written_files("".join(f"cat <<E{i} > f{i}\nbody\n" for i in range(count))) == {}
    assert written_files("cat " * count + "\n") == {}
    assert list(fenced_blocks("# a\n" + "```bash\n~~~x\n" * count)) == []
    assert read_script("".join(f"read -r V{i} <<E{i}\nbody\n" for i in range(count)), {}).variables == {}


def test_a_page_of_more_blocks_than_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("# a\n" + "```text2\nx\n```\n" * 501)
    assert run(["import", str(page)]) == 2
    assert "more than 500 fenced blocks" in capsys.readouterr().err


def test_linked_scripts_of_a_folder(given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (given / "a.sh").write_text("vllm serve meta-llama/Llama-3.1-8B\n")
    assert run(["import", str(given), "--device", "h100-sxm-80gb"]) == 2
    out, err = capsys.readouterr()
    assert "no link may lead to it" in err and SECRET not in out + err


def test_scripts_that_hand_themselves_to_a_shell_end() -> None:
    text = 'A=\'bash -c "$A"; bash -c "$A"; vllm serve x\'\nbash -c "$A"\n'
    launch = Launch(format="vllm", title="", file="-")
    commands(text, Starts(patterns=(re.compile("vllm serve"),)), launch, {})
    assert any("more than 50" in left.why for left in launch.unread)
    nested = 'A=\'bash -c "$A"; torchrun train.py\'\nbash -c "$A"\n'
    assert launched.find(nested, launch, {}, re.compile("train.py")) is not None


def test_sums_use_the_variables_of_a_script_and_are_short() -> None:
    script = read_script("A=2\nB=A+1\nC=$((B*$A))\nLONG=$((" + "1+" * 600 + "1))\nD=$((E+1))\n", {})
    value = {name: " ".join(word.text for word in words) for name, words in script.variables.items()}
    assert value["C"] == "6", "a variable of a sum is a sum of its own"
    assert value["LONG"].startswith("$((") and value["D"] == "$((E+1))"


def test_scripts_of_too_many_words_or_levels() -> None:
    with pytest.raises(BadInput, match="more than 100,000 words"):
        read_script("a " * 100_001, {})
    with pytest.raises(BadInput, match="more than 100 conditions"):
        read_script("if [ $X ]; then\n" * 102 + "a\n", {})
    deep = read_script("if [ 1 = 1 ]; then\n" * 99 + "a\n" + "fi\n" * 99, {})
    assert [word.text for word in deep.commands[0]] == ["a"]
