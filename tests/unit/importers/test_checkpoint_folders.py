"""Checkpoints that a launch file names by a folder, or that lie in the cache of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.importers.checkpoint_folders import config_of
from windtunnel.importers.formats import read
from windtunnel.importers.launch import Wanted

CONFIG: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_attention_heads": 16,
    "num_hidden_layers": 10,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "quantization_config": {"bits": 4, "quant_method": "awq"},
}


def _checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder / "config.json"


def test_a_folder_next_to_the_script(tmp_path: Path) -> None:
    config = _checkpoint(tmp_path / "own" / "model")
    script = str(tmp_path / "serve.sh")
    assert config_of("./own/model", script) == config
    assert config_of(str(config.parent), script) == config
    assert config_of(str(config.parent), str(tmp_path / "elsewhere" / "serve.sh")) is None, "not below the script"
    assert config_of("own/other", script) is None
    _checkpoint(tmp_path / "$MODEL")
    assert config_of("$MODEL", script) is None, "a variable that nobody set"
    assert config_of("own/model\0", script) is None


@pytest.mark.parametrize(("variable", "below"), [("HF_HUB_CACHE", ""), ("HF_HOME", "hub")])
def test_the_snapshot_of_the_main_branch(
    variable: str, below: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    own = tmp_path / below / "models--someone--small-AWQ"
    _checkpoint(own / "snapshots" / "aaaa")
    newest = _checkpoint(own / "snapshots" / "bbbb")
    (own / "refs").mkdir()
    (own / "refs" / "main").write_text("bbbb\n")
    assert config_of("someone/small-AWQ", str(tmp_path / "serve.sh")) == newest
    assert config_of("someone/other", str(tmp_path / "serve.sh")) is None


def test_a_served_folder_has_its_dimensions_and_its_format(tmp_path: Path) -> None:
    _checkpoint(tmp_path / "model")
    command = "vllm serve ./model --tensor-parallel-size 2\n"
    launch = read("vllm", command, str(tmp_path / "serve.sh"), Wanted(device="h100-sxm-80gb"))
    assert not launch.problems
    assert launch.scenario()["model"]["hidden_size"] == 1024
    assert launch.scenario()["serving"]["precision"] == {"weights": "w4a16"}
