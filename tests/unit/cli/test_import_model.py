"""`windtunnel import config.json`: parameters in JSON, and what transformers counts beside them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from windtunnel import catalog
from windtunnel.catalog.parameters import count_parameters
from windtunnel.cli.main import app
from windtunnel.cli.models import _billions
from windtunnel.errors import BadInput
from windtunnel.importers.huggingface.library import count_with_transformers
from windtunnel.quantities import count

MAMBA = {
    "architectures": ["MambaForCausalLM"],
    "model_type": "mamba",
    "hidden_size": 768,
    "intermediate_size": 1536,
    "num_hidden_layers": 24,
    "vocab_size": 50280,
    "state_size": 16,
    "time_step_rank": 48,
    "conv_kernel": 4,
}
PUBLISHED = 129_135_360  # state-spaces/mamba-130m-hf: elements of its checkpoint


def _file(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def test_json_has_the_fields_and_both_counts(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["import", _file(tmp_path, MAMBA), "--json"])
    assert found.exit_code == 0
    data = json.loads(found.stdout)
    assert data["parameters"] == data["active_parameters"] == PUBLISHED
    assert data["family"] == "composed"


def test_active_parameters_leave_out_experts_that_a_token_does_not_meet(tmp_path: Path) -> None:
    config = {
        "model_type": "mixtral",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 32000,
    }
    data = json.loads(CliRunner().invoke(app, ["import", _file(tmp_path, config), "--json"]).stdout)
    assert data["parameters"] - data["active_parameters"] == 32 * 6 * 3 * 4096 * 14336 + 32000 * 4096


def test_the_library_says_what_is_missing(tmp_path: Path) -> None:
    if importlib.util.find_spec("transformers") is not None:
        pytest.skip("transformers is installed here")
    with pytest.raises(BadInput, match="windtunnel\\[oracle\\]"):
        count_with_transformers(MAMBA, _file(tmp_path, MAMBA))


def test_a_type_that_the_library_does_not_know_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(monkeypatch, known={})
    with pytest.raises(BadInput, match="no type that transformers"):
        count_with_transformers(MAMBA, "config.json")


def test_what_the_library_raises_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fields: dict[str, Any]) -> None:
        raise KeyError("time_step_rank")

    _stand_in(monkeypatch, known={"mamba": SimpleNamespace(from_dict=refuse)})
    with pytest.raises(BadInput, match="cannot build it: KeyError: 'time_step_rank'"):
        count_with_transformers(MAMBA, "config.json")


def test_weights_of_the_class_that_the_file_names_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(monkeypatch, known={"mamba": SimpleNamespace(from_dict=lambda fields: fields)})
    assert count_with_transformers(MAMBA, "config.json") == PUBLISHED


def _stand_in(monkeypatch: pytest.MonkeyPatch, known: dict[str, Any]) -> None:
    """Put a library in place of transformers whose class has the checkpoint's number of elements."""

    class OnMeta:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

    weights = SimpleNamespace(parameters=lambda: [SimpleNamespace(numel=lambda: PUBLISHED)])
    library = ModuleType("transformers")
    vars(library).update(
        __version__="5.0",
        MambaForCausalLM=lambda config: weights,
        logging=SimpleNamespace(set_verbosity_error=lambda: None),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(device=lambda name: OnMeta()))  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "transformers", library)
    for name in ("models", "models.auto", "models.auto.configuration_auto"):
        monkeypatch.setitem(sys.modules, f"transformers.{name}", ModuleType(f"transformers.{name}"))
    vars(sys.modules["transformers.models.auto.configuration_auto"])["CONFIG_MAPPING"] = known


def test_only_transformers_counts_and_only_models(tmp_path: Path) -> None:
    other = CliRunner().invoke(app, ["import", _file(tmp_path, MAMBA), "--with", "jax"])
    assert other.exit_code != 0
    script = tmp_path / "serve.sh"
    script.write_text("vllm serve Qwen/Qwen3-8B -tp 2\n", encoding="utf-8")
    wrong = CliRunner().invoke(app, ["import", str(script), "--with", "transformers"])
    assert wrong.exit_code != 0


def test_the_count_of_parameters_is_said(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["import", _file(tmp_path, MAMBA)])
    total = json.loads(CliRunner().invoke(app, ["import", _file(tmp_path, MAMBA), "--json"]).stdout)["parameters"]
    assert f"{count(total)} parameters" in ran.stderr


def test_models_without_a_published_count_show_the_counted_one() -> None:
    spec = next(one for one in map(catalog.model, catalog.models()) if one.num_parameters_published is None)
    assert _billions(spec).split(" (")[0] == count(float(count_parameters(spec).total))
