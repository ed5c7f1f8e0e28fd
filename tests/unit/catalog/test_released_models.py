"""Released models that stand in one line each: look-up, checkpoints with another's dimensions, formats."""

from __future__ import annotations

import json

import pytest

from windtunnel import catalog
from windtunnel.catalog import released_models, store
from windtunnel.catalog.checkpoints import released_format
from windtunnel.catalog.model_names import checkpoint
from windtunnel.catalog.parameters import count_parameters


@pytest.mark.parametrize(
    ("name", "billions"),
    [  # sizes on the model cards
        ("EleutherAI/pythia-1b", 1.0118),
        ("tiiuae/Falcon3-7B-Base", 7.456),
        ("BSC-LT/salamandra-7b", 7.768),
        ("HuggingFaceTB/SmolLM2-1.7B", 1.711),
        ("allenai/OLMo-2-1124-13B", 13.716),
        ("Qwen/Qwen3-VL-8B-Instruct", 8.767),
    ],
)
def test_sizes_of_lines(name: str, billions: float) -> None:
    assert count_parameters(catalog.model(name)).total / 1e9 == pytest.approx(billions, rel=0.002)


def test_a_checkpoint_like_another_has_its_dimensions() -> None:
    assert catalog.model("mistralai/mathstral-7B-v0.1") is catalog.model("mistralai/Mistral-7B-v0.3")
    assert catalog.model("mathstral-7B-v0.1") is catalog.model("mistralai/Mistral-7B-v0.3")
    assert "mistralai/mathstral-7B-v0.1" not in catalog.models()


def test_lines_that_are_like_another_name_one_that_exists() -> None:
    for line in released_models.lines().values():
        if line.like is not None:
            assert store.key(catalog.model(line.name).name) == store.key(catalog.model(line.like).name), line.name


def test_formats_of_a_configuration_go_before_those_of_a_name() -> None:
    found = released_format("nvidia/Qwen3.6-35B-A3B-NVFP4")
    assert found is not None
    assert found.formats == {"weights": "fp8", "experts": "nvfp4", "kv_cache": "fp8"}
    assert "aiconfigurator" in found.why


def test_a_line_is_found_by_its_name_and_by_the_end_of_it() -> None:
    for name, line in released_models.lines().items():
        own = name if line.like is None else catalog.model(line.like).name
        assert store.key(catalog.model(name).name) == store.key(own), name
        assert checkpoint(name.rsplit("/", 1)[-1]).model.name == catalog.model(name).name, name


def test_every_line_says_where_it_was_read() -> None:
    for name, line in released_models.lines().items():
        data = json.loads(line.text)
        assert data["name"] == name
        assert ("github.com/" in data["source"] or "huggingface.co/" in data["source"]) and data["as_of"].startswith(
            "20"
        ), name


def test_layers_written_one_by_one_come_back_as_they_were() -> None:
    name = "XiaomiMiMo/MiMo-V2-Flash"
    model = catalog.model(name)
    spelled = model.model_dump(mode="json", exclude_defaults=True, exclude={"provenance"})
    line = released_models.line_of(spelled | {"source": "s", "as_of": "2026"})
    assert len(line) < 4000  # each kind of layer once
    data = json.loads(line)
    layers = [{"blocks": data["blocks"][index]} for index in data["depth"]]
    again = type(model).model_validate(spelled | {"layers": layers})
    assert again.layer_kinds() == model.layer_kinds()
    assert count_parameters(again).total == count_parameters(model).total
