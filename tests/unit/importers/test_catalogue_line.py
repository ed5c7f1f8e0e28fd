"""Lines of the catalogue made from a config.json, and a user's own file of them."""

from __future__ import annotations

import json
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
