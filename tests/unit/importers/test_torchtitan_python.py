"""Python configurations of torchtitan, read without running them."""

from __future__ import annotations

from windtunnel.importers import formats
from windtunnel.importers.launch import Launch, Wanted

TEXT = """\
from torchtitan.components.quantization import Float8LinearConverter
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

def llama3_70b() -> Trainer.Config:
    \"\"\"As published.\"\"\"
    return Trainer.Config(
        model_spec=model_registry("70B"),
        training=TrainingConfig(local_batch_size=8, seq_len=8192, steps=1000),
        parallelism=ParallelismConfig(tensor_parallel_degree=8, enable_sequence_parallel=False),
        activation_checkpoint=FullAC.Config(),
    )

def ours() -> Trainer.Config:
    config = llama3_70b()
    config.training.local_batch_size = 2
    config.training.seq_len = 4096 * FACTOR
    config.training.disable_cuda_graphs = True
    config.compile = CompileConfig(enable=True, enable_async_tensor_parallel=True)
    config.model_spec = model_registry("70B", converters=[Float8LinearConverter.Config(recipe_name="rowwise")])
    tune(config)
    return config
"""


def read(name: str | None, text: str = TEXT) -> Launch:
    """The launch of one of its functions on 64 H100."""
    env = {"CONFIG": name} if name else {}
    return formats.read("torchtitan", text, "ours.py", Wanted(device="h100-sxm-80gb", nodes=8, env=env))


def test_a_function_that_starts_from_another_is_read_through() -> None:
    assert formats.detect(TEXT, "ours.py") == "torchtitan"
    launch = read("ours")
    assert launch.problems == []
    fields = launch.fields
    assert fields["model"] == "meta-llama/Llama-3.1-70B"
    assert (fields["plan.tp"], fields["plan.sp"], fields["plan.mbs"], fields["plan.zero"]) == (8, False, 2, 3)
    assert (fields["training.compile"], fields["plan.overlap.tp"]) == (True, True)
    assert (fields["training.precision"], fields["training.seq_len"]) == ("fp8_rowwise", 8192)
    assert (fields["plan.recompute.policy"], fields["plan.recompute.early_stop"]) == ("full", False)
    assert "training.cuda_graphs" not in fields
    left = {item.name: item for item in launch.unread}
    assert left["training.seq_len"].value == "4096 * FACTOR"
    assert left["tune(config)"].line == 23


def test_graphs_are_captured_unless_switched_off() -> None:
    assert read("llama3_70b").fields["training.cuda_graphs"] == "full"


def test_several_functions_are_asked_for_by_name() -> None:
    for name in (None, "theirs"):
        (problem,) = read(name).problems
        assert "CONFIG" in problem.field and "llama3_70b, ours" in problem.rule


def test_a_configuration_of_torchtitan_names_the_model_and_its_other_settings_are_said_to_be_missing() -> None:
    text = (
        "from torchtitan.models.qwen3.config_registry import qwen3_30b_a3b\nfrom torchtitan.trainer import Trainer\n"
        "def mine() -> Trainer.Config:\n    config = qwen3_30b_a3b()\n    config.training.seq_len = 4096\n"
        "    return config\n"
    )
    launch = read(None, text)
    assert launch.fields["model"] == "Qwen/Qwen3-30B-A3B" and launch.fields["training.seq_len"] == 4096
    assert any("qwen3_30b_a3b" in item.name and "not in this file" in item.why for item in launch.unread)
