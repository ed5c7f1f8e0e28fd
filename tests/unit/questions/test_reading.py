"""Fields of questions, and the refusal of words that were not read."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.errors import BadInput
from windtunnel.questions.builder import whole
from windtunnel.questions.reading import EXAMPLES, MOST_CHARACTERS, grammar, read
from windtunnel.questions.to_scenario import Asked, asked


def scenario(words: str) -> dict[str, Any]:
    """The scenario of a question."""
    return asked(read(words)).scenario


def question(words: str) -> Asked:
    """What a question asks for."""
    return asked(read(words))


def refusal(words: str) -> str:
    """Why a question is refused."""
    with pytest.raises(BadInput) as error:
        asked(read(words))
    return str(error.value)


@pytest.mark.parametrize("words", EXAMPLES)
def test_examples_of_the_refusal_are_read(words: str) -> None:
    assert question(words).scenario["model"]


def test_a_training_question() -> None:
    found = question("train llama3-70b on 64 h100 at 4k with batch 1k in fp8, tp 4, zero 1")
    assert (found.command, found.task, found.devices) == ("train", "train", 64)
    assert found.scenario["cluster"] == {"device": "h100-sxm-80gb", "nodes": 8, "devices_per_node": 8}
    assert found.scenario["training"] == {"seq_len": 4096, "global_batch": 1000, "precision": "fp8"}
    assert (found.scenario["plan"]["tp"], found.scenario["plan"]["zero"]) == (4, 1)
    assert found.scenario["plan"]["pp"] == "auto"
    assert found.assumed == ()


def test_a_serving_question() -> None:
    found = question("serve llama3-8b on 2 a100 at 20 requests/s of 3k/300, p99 ttft < 2 s, with sglang")
    serving = found.scenario["serving"]
    assert (found.command, found.devices) == ("serve", 2)
    assert serving["traffic"] == {"num_requests": 1000, "input_tokens": 3072, "output_tokens": 300, "rate_per_s": 20.0}
    assert serving["slo"] == {"ttft_s": 2.0, "percentile": 0.99}
    assert serving["engine"] == "sglang"
    assert found.scenario["search"]["space"] == {"rate_per_s": [20.0]}


def test_a_fine_tuning_question() -> None:
    found = question("qlora with rank 32 of llama3-8b on my 4090")
    assert found.scenario["training"]["lora"] == {"rank": 32, "quantized_base": "nf4"}
    assert (found.task, found.devices, found.scenario["training"]["phase"]) == ("finetune", 1, "lora")


def test_tokens_of_a_run_make_it_a_run() -> None:
    found = question("how long does pretraining llama3-8b on 1.5T tokens take on 4 nodes of 8 h100")
    assert (found.command, found.scenario["run"], found.devices) == ("run", {"tokens": 1.5e12}, 32)


def test_what_was_not_said_is_among_the_assumptions() -> None:
    assert [name for name, _, _ in question("llama3-70b on 64 h100").assumed] == [
        "task", "training.seq_len", "training.global_batch",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "task"),
    [
        ("llama3-8b on 8 h100 at 5 requests/s", "serve"),
        ("how many users can llama3-8b have on 8 h100", "serve"),
        ("run llama3-8b on my 4090", "serve"),
        ("a run of llama3-8b on 8 h100 over 1T tokens", "train"),
        ("llama3-8b on 8 h100 with zero 3", "train"),
        ("dpo of llama3-8b on 8 h100", "finetune"),
        ("mfu of llama3-8b on 8 h100", "train"),
    ],
)
def test_the_task_follows_from_the_words(words: str, task: str) -> None:
    assert question(words).task == task


@pytest.mark.parametrize(
    ("words", "cluster"),
    [
        ("llama3-8b on 12 h100", (2, 6)),
        ("llama3-8b on 4 nodes of 8 h100", (4, 8)),
        ("llama3-8b on 2 dgx h100", (2, 8)),
        ("llama3-8b on 8xH100", (1, 8)),
        ("llama3-8b on 2 x 4090", (1, 2)),
        ("llama3-8b on an h100", (1, 1)),
        ("llama3-8b on 4 h100 servers", (4, 8)),
        ("llama3-8b on 8 gb200", (2, 4)),
    ],
)
def test_devices_make_nodes(words: str, cluster: tuple[int, int]) -> None:
    found = scenario(words)["cluster"]
    assert (found["nodes"], found["devices_per_node"]) == cluster


def test_a_format_in_a_name_is_read() -> None:
    assert scenario("serve Qwen3-32B-FP8 on 2 h100 at 1 rps")["serving"]["precision"] == {"weights": "fp8"}


def test_watts_of_one_device_are_a_cap_and_of_all_a_limit() -> None:
    assert scenario("llama3-8b on 8 h100 under 400 W")["cluster"]["power_cap_w"] == 400
    assert scenario("llama3-8b on 64 h100 under 30 kW")["search"] == {"limits": {"power": 30_000}}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("train llama9-70b on 64 h100", "llama9-70b: was not read; did you mean"),
        ("train llama3-70b on 64 h300", "64 h300: was not read; did you mean"),
        ("train 8b on 8 h100", "8b: is a size without a family"),
        ("serve acme inc/llama3-8b on 1 h100 at 1 requests/s", "acme: was not read"),
        ("train llama3-8b on 8 macbooks", "8 macbooks: was not read"),
        ("trian llama3-70b on 64 h100", "trian: was not read; did you mean 'train'"),
        ("train llama3-8b on 8 h100 without flash attention", "without flash attention: was not read"),
        ("train llama3-8b not on 8 h100", "not: was not read"),
        ("train llama3-8b on 8 h100 4000", "4000: was not read"),
        ("train and serve llama3-8b on 8 h100", "to train and to serve"),
        ("train llama3-8b on 8 h100 at 5 requests/s", "5 requests/s: is not of a question about training"),
        ("serve llama3-8b on 8 h100 with zero 3", "zero 3: is not of a question about serving"),
        ("train llama3-8b on 8 h100 batch 8 batch 16", "exclude each other"),
        ("train llama3-8b and qwen2.5 7b on 8 h100", "exclude each other"),
        ("train llama3-8b on 8 h100 and 4 h200", "exclude each other"),
        ("train llama3-8b on 8 h100 vs", "which devices?"),
        ("train on 8 h100", "which model?"),
        ("train llama3-8b", "on which devices?"),
        ("how many days to train llama3-8b on 8 h100", "how long is the run?"),
        ("train my.yaml on 8 h100", "is a scenario, not a model"),
        ("llama3-8b on 8 h100 in 30 days", "in 30 days: needs the size of the run"),
        ("train llama3-8b on at least 64 h100", "least: was not read"),
        ("train llama3-8b on half of 64 h100", "half: was not read"),
        ("serve llama3-8b on 8 h100 at 20 requests per second per gpu", "per: was not read here"),
        ("train llama3-8b on 8 h100 over -3T tokens", "-3T: was not read"),
        ("train llama3-8b on 8 h100 without lora", "without: was not read"),
        ("train llama3-8b on 8 h100 with tp8 dp4", "dp4: times tp, pp and cp"),
        ("serve llama3-70b tp16 on 8 h100", "tp16: needs 16 devices of 8"),
        ("train llama3-8b on 2 nodes of 8 h100, 64 gpus", "64 gpus: is not 2 × 8"),
        ("lowest latency to train llama3-8b on 8 h100", "is of a question about serving"),
        ("serve llama3-8b on 8 h100 of 8k/1k with 4k context", "is shorter than a prompt"),
        ("train llama3-8b on 8 h100 in 4 bit", "is a format of served weights"),
    ],
)
def test_what_was_not_read_or_does_not_go_together_is_refused(words: str, says: str) -> None:
    assert says in refusal(words)


def test_a_refusal_shows_three_questions() -> None:
    assert all(example in refusal("blah") for example in EXAMPLES)


@pytest.mark.parametrize("words", ["", "  ", "x" * (MOST_CHARACTERS + 1)])
def test_the_length_of_a_question_is_bounded(words: str) -> None:
    with pytest.raises(BadInput, match="characters"):
        read(words)


@pytest.mark.parametrize("words", ["llama3-8b on {} h100", "llama3-8b on 64 h100 in {} days", "${} llama3-8b 8 h100"])
def test_numbers_that_no_float_holds_are_not_read(words: str) -> None:
    with pytest.raises(BadInput, match="was not read"):
        read(words.format("9" * 400))


@pytest.mark.parametrize(
    "words",
    [
        "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --enforce-eager",
        "python -m sglang.launch_server --model-path x --tp 4",
        "torchrun --nproc-per-node 2 train.py",
        "OMP_NUM_THREADS=1 python3 train.py --config x",
        "docker run --gpus all vllm/vllm-openai --model x " + "--option value " * 90,
    ],
)
def test_a_pasted_launch_command_is_sent_to_import(words: str) -> None:
    assert refusal(words) == "this is a launch command, not a question: `windtunnel import '…'` reads it"


def test_a_size_without_a_family_names_models_of_it() -> None:
    told = refusal("13b on 8 h100")
    assert "13b: is a size without a family; models of it: " in told
    assert all("13b" in name.lower() for name in told.partition("models of it: ")[2].partition("\n")[0].split(", "))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("serve llama3-8b on 4 l40s at most 40 GB a device", "is not of a question about serving"),
        ("serve llama3-8b on 1 h100, each sends a request every 20 seconds", "of how many users?"),
        ("sft llama3-8b on 8 h100, 3 epochs", "needs the number of examples"),
    ],
)
def test_what_would_be_left_unused_is_refused(words: str, says: str) -> None:
    assert says in refusal(words)


@pytest.mark.parametrize("word", ["two", "ninety", "hundred", "million", "dozen"])
def test_a_number_in_words_is_never_passed_over(word: str) -> None:
    assert word in grammar().turning


@pytest.mark.parametrize(
    ("words", "device"),
    [("1x 16GB v100", "v100-sxm-16gb"), ("1x 32GB v100", "v100-sxm-32gb"), ("24GB 4090", "rtx-4090")],
)
def test_memory_beside_a_device_chooses_among_those_of_its_name(words: str, device: str) -> None:
    assert asked(read(f"lora of llama3-8b on {words}")).scenario["cluster"]["device"] == device


@pytest.mark.parametrize("words", ["30GB 4090", "18GB 4090", "64GB v100", "64GB m3 ultra", "16GB tpu v4"])
def test_memory_that_no_such_device_has_is_refused(words: str) -> None:
    assert "is not the memory of" in refusal(f"lora of llama3-8b on {words}")


def test_a_fraction_stays_one() -> None:
    assert (whole(8192.0), whole(1.5), whole("auto")) == (8192, 1.5, "auto")
