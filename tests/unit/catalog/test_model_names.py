"""Names of checkpoints: formats, fine-tunes, local folders, and names that stand for another network."""

from __future__ import annotations

import pytest

from windtunnel.catalog import store
from windtunnel.catalog.checkpoints import named_format
from windtunnel.catalog.model_names import _places, checkpoint
from windtunnel.data_files import read_yaml
from windtunnel.errors import BadInput


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("allenai/Llama-3.1-Tulu-3-8B-DPO", "meta-llama/Llama-3.1-8B"),
        ("virtuoussy/Qwen2.5-7B-Instruct-RLVR", "Qwen/Qwen2.5-7B"),
        ("OpenRLHF/Llama-3-8b-sft-mixture", "meta-llama/Llama-3.1-8B"),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", "Qwen/Qwen3-8B"),
        ("teknium/OpenHermes-2.5-Mistral-7B", "mistralai/Mistral-7B-v0.1"),
        ("HuggingFaceH4/zephyr-7b-beta", "mistralai/Mistral-7B-v0.1"),
        ("HuggingFaceH4/zephyr-7b-gemma-sft-v0.1", "google/gemma-7b"),
        ("Skywork/Skywork-Reward-Llama-3.1-8B-v0.2", "meta-llama/Llama-3.1-8B"),
        ("qwen3-30b-a3b/sft-convergence-v1-hf-export", "Qwen/Qwen3-30B-A3B"),
        ("hf_llama2_models/7B-chat", "meta-llama/Llama-2-7b-hf"),
        ("deepseek-ai/DeepSeek-V4-Flash-0731", "deepseek-ai/DeepSeek-V4-Flash"),
        ("deepseek-ai/DeepSeek-V3.2-Speciale", "deepseek-ai/DeepSeek-V3.2"),
    ],
)
def test_tuned_models_name_their_base(name: str, base: str) -> None:
    found = checkpoint(name)
    assert found.model.name == base
    assert found.why is not None and base in found.why and name in found.why


@pytest.mark.parametrize(
    ("name", "model", "format"),
    [
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "meta-llama/Llama-3.1-8B", "int8"),
        ("Qwen/Qwen3-32B-FP8-Static-PerTensor", "Qwen/Qwen3-32B", "fp8"),
        ("hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4", "meta-llama/Llama-3.1-8B", "w4a16"),
        ("mlx-community/Mistral-7B-Instruct-v0.3-4bit", "mistralai/Mistral-7B-v0.3", "w4a16"),
        ("nvidia/Llama-3.3-70B-Instruct-NVFP4", "meta-llama/Llama-3.1-70B", "nvfp4"),
        ("amd/DeepSeek-R1-0528-MXFP4-Preview", "deepseek-ai/DeepSeek-V3", "mxfp4"),
        ("deepseek-ai/DeepSeek-V3-0324-BF16", "deepseek-ai/DeepSeek-V3", "bf16"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-7B", "int8"),
        ("unsloth/Llama-3.2-1B-Instruct-unsloth-bnb-4bit", "meta-llama/Llama-3.2-1B", "w4a16"),
        ("/models/Qwen3-8B-FP8/", "Qwen/Qwen3-8B", "fp8"),
        ("/hub/models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f249a16976918f", "meta-llama/Llama-3.1-8B", None),
        ("./checkpoints/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B", None),
    ],
)
def test_formats_and_folders_in_names(name: str, model: str, format: str | None) -> None:
    found = checkpoint(name)
    assert (found.model.name, found.format) == (model, format)


@pytest.mark.parametrize(
    "name",
    [
        "Inferact/Qwen3-8B-EAGLE3",  # a draft
        "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
        "z-lab/Qwen3-4B-DFlash-b16",
        "nvidia/Llama-3.1-Minitron-4B-Width-Base",  # pruned to another size
        "someone/Qwen3-30B-A3B-REAP-25B",
        "someone/falcon-mamba-7b-tuned",  # another architecture
        "someone/Qwen2.5-VL-14B-tuned",  # a tower, before a model that has that size without one
        "trl-internal-testing/tiny-Qwen2ForCausalLM-2.5",
        "my-org/my-model",
        "Llama-3.9-8B",  # another generation
        "Qwen/Qwen3-72B",
        "deepseek-ai/DeepSeek-V4-Nova-0813",  # another model of a generation
    ],
)
def test_names_of_other_networks_have_no_base(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        checkpoint(name)
    (problem,) = caught.value.problems
    assert "not in the catalogue" in problem.rule
    assert "config.json" in problem.rule and "windtunnel catalog add" in problem.rule


def test_released_models_without_a_readable_configuration_are_listed_and_not_made() -> None:
    listed = read_yaml("catalog/model_names.yaml")["without_configuration"]
    assert len(listed) > 80
    for name in listed:
        with pytest.raises(BadInput, match="in no public repository"):
            checkpoint(name)


@pytest.mark.parametrize(
    ("name", "plain", "format"),
    [
        ("Qwen/Qwen3-8B-FP8-dynamic", "Qwen/Qwen3-8B", "fp8"),
        ("gemma-3-27b-it-qat-q4_0-gguf", "gemma-3-27b-it", "q4_0"),
        ("Llama-3.1-405B-Instruct-FP8-KV", "Llama-3.1-405B-Instruct", "fp8"),
        ("Qwen3-8B", "Qwen3-8B", None),
        ("BF16-tuned-model", "BF16-tuned-model", None),
    ],
)
def test_the_end_of_a_name_says_a_format(name: str, plain: str, format: str | None) -> None:
    assert named_format(name) == (plain, format)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("qwen3-coder-480b", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
        ("qwen3-235b", "Qwen/Qwen3-235B-A22B"),
        ("Qwen3 30B", "Qwen/Qwen3-30B-A3B"),
        ("qwen3-32b", "Qwen/Qwen3-32B"),
    ],
)
def test_a_mixture_may_be_named_without_its_active_size(name: str, model: str) -> None:
    assert checkpoint(name).model.name == model


def test_two_mixtures_of_one_size_are_not_guessed() -> None:
    assert store._shortened({"m8ba1b": "one", "m8ba2b": "two", "m9ba1b": "three"}.items()) == {"m9b": "three"}


@pytest.mark.parametrize("text", ["64/16", "8/14"])
def test_the_patch_of_an_encoder_is_no_name(text: str) -> None:
    assert store.stem_of("models", text) is None


def test_words_are_found_one_behind_the_other() -> None:
    assert _places(("a", "b", "a"), ("a", "x", "b", "a")) == [0, 2, 3]
    assert _places(("b", "a", "a"), ("a", "b", "a")) is None, "one word does not count twice"
    assert _places(("a", "b"), ("b", "a")) is None
