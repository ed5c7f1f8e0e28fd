"""Lines of the catalogue made from a config.json, and a user's own file of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from windtunnel.catalog import released_models
from windtunnel.errors import BadInput
from windtunnel.importers.catalogue_line import catalogue_line

SMALL = {
    "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16,
    "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 32000, "intermediate_size": 4096,
}  # fmt: skip


def written(folder: Path, data: dict[str, object], name: str = "config.json") -> Path:
    (folder / name).write_text(json.dumps(data), "utf-8")
    return folder / name


def test_dimensions_formats_and_source(tmp_path: Path) -> None:
    own = SMALL | {"quantization_config": {"quant_method": "awq", "bits": 4}}
    line = catalogue_line(written(tmp_path, own), "mine/small", "github.com/mine/small (abc1234, config.json)")
    assert line["name"] == "mine/small" and line["hidden_size"] == 1024 and line["qk_norm"] is True
    assert line["formats"] == {"weights": "w4a16"}
    assert line["source"].endswith("(abc1234, config.json)") and line["as_of"][:2] == "20"


def test_dimensions_of_another_model_are_that_model(tmp_path: Path) -> None:
    sizes = {"hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "head_dim": 128}
    config = SMALL | sizes | {"vocab_size": 151936, "intermediate_size": 12288, "tie_word_embeddings": False}
    beside = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    written(tmp_path, beside, "hf_quant_config.json")
    line = catalogue_line(written(tmp_path, config), "mine/tuned-8b")
    assert line["like"] == "Qwen/Qwen3-8B" and "hidden_size" not in line
    assert line["formats"] == {"weights": "fp8", "kv_cache": "fp8"}


def test_a_name_of_the_catalogue_is_taken(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is a name of the catalogue already"):
        catalogue_line(written(tmp_path, SMALL), "Qwen/Qwen3-8B")


def test_a_file_of_ones_own_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    released_models.append(released_models.users_file(), catalogue_line(written(tmp_path, SMALL), "mine/small"))
    try:
        assert released_models.read("mine/small")["hidden_size"] == 1024
        assert released_models.lines()["mine/small"].file == str(tmp_path / "windtunnel" / "models.jsonl")
    finally:
        released_models.lines.cache_clear()


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("", "utf-8")
    with pytest.raises(BadInput, match="cannot be written"):
        released_models.append(tmp_path / "plain" / "models.jsonl", {"name": "a"})


def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine\n", "utf-8")
    with pytest.raises(BadInput, match="no models"):
        released_models.append(notes, {"name": "a"})
    assert notes.read_text("utf-8") == "mine\n"
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "elsewhere.jsonl")
    with pytest.raises(BadInput, match="is a link"):
        released_models.append(tmp_path / "link.jsonl", {"name": "a"})
    assert not (tmp_path / "elsewhere.jsonl").exists()


def test_a_name_is_added_once_and_can_be_found_again(tmp_path: Path) -> None:
    file = tmp_path / "models.jsonl"
    file.write_text('{"name": "b"}', "utf-8")  # no line break at the end
    released_models.append(file, {"name": "a"})
    assert [json.loads(line)["name"] for line in file.read_text("utf-8").splitlines()] == ["b", "a"]
    with pytest.raises(BadInput, match=r"stands in .* already"):
        released_models.append(file, {"name": "a"})
    for name in ('a"b', "a\nb", "a\\b", "a" * 201):
        with pytest.raises(BadInput, match="at most 200 letters"):
            released_models.append(file, {"name": name})


@pytest.mark.parametrize("rest", ["nonsense", '"blocks": [1], "depth": [5]}', '"blocks": [1]}'])
def test_a_damaged_file_of_ones_own_is_a_problem_of_its_model_alone(
    rest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "windtunnel").mkdir()
    (tmp_path / "windtunnel" / "models.jsonl").write_text(f'{{"name": "mine/broken", {rest}\n', "utf-8")
    released_models.lines.cache_clear()
    try:
        with pytest.raises(BadInput, match=r"models\.jsonl"):
            released_models.read("mine/broken")
    finally:
        released_models.lines.cache_clear()


def test_a_pipe_for_ones_own_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "windtunnel").mkdir()
    os.mkfifo(tmp_path / "windtunnel" / "models.jsonl")
    released_models.lines.cache_clear()
    try:
        assert all(line.file == "catalog/models.jsonl" for line in released_models.lines().values())
    finally:
        released_models.lines.cache_clear()
