"""slime as a scenario: Megatron-LM's options behind `train.py` with bf16 and a sharded optimizer, SFT and rollouts.

Names and defaults: THUDM/slime `slime/utils/arguments.py` and `slime/backends/megatron_utils/arguments.py` (commit
57f3c59bf435): bf16, the distributed optimizer, dropout off. The model comes from a sourced `models/NAME.sh`, which is
read where it lies below the script's folder, else by its name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from windtunnel.files.parsing import whole_number
from windtunnel.importers import launched, megatron_model, megatron_plan
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.launch_text import tidy
from windtunnel.importers.megatron_flags import Flags
from windtunnel.importers.settings import options
from windtunnel.importers.shell import Script, Word, read_script

FORMAT = "slime"
TITLE = "slime arguments"
OVER = ("megatron", "sglang", "vllm", "megatron_bridge")
MARKS = re.compile(
    r"--(actor-num-nodes|actor-num-gpus-per-node|rollout-batch-size|n-samples-per-prompt|rollout-num-gpus)\b"
)
PROGRAM = re.compile(r"\btrain(_async)?\.py\b")
ALGORITHMS = {"grpo": "GRPO", "gspo": "GSPO", "ppo": "PPO", "reinforce_plus_plus": "REINFORCE++"}


def detect(text: str) -> bool:
    """Whether a text starts slime: its options of actors and rollouts beside Megatron-LM's."""
    return len(set(MARKS.findall(text))) >= 2 and PROGRAM.search(text) is not None and "add_argument" not in text


def read(text: str, file: str, wanted: Wanted) -> Launch:
    """Read a script; problems are collected in the result."""
    launch = Launch(format=FORMAT, title=TITLE, file=file)
    script = read_script(tidy(text), wanted.env, file=file)
    words = max(script.commands, key=lambda own: sum(bool(MARKS.match(word.text)) for word in own), default=[])
    flags = Flags(launch, [word for word in words if not re.fullmatch(r"\$\{?\w+(\[@\])?\}?", word.text)])
    nodes, per_node = flags.size(("actor-num-nodes",)), flags.size(("actor-num-gpus-per-node",))
    devices = launch.cluster(wanted, nodes, per_node)
    _defaults(flags)
    wanted = _model(launch, flags, wanted, script, words)
    megatron_model.read_model(launch, flags, wanted)
    length = _length(flags)
    given = replace(wanted, seq_len=wanted.seq_len or length, mbs=wanted.mbs or 1)
    supervised = flags.text("loss-type") == "sft_loss"
    if given.seq_len is None and supervised and (most := flags.number("max-tokens-per-gpu")):
        cp = flags.number("context-parallel-size") or 1
        given = replace(given, seq_len=most * cp)
        launch.assumed.append(("training.seq_len", str(most * cp), "max-tokens-per-gpu: a micro-batch holds so many"))
    megatron_plan.read_training(launch, flags, given)
    megatron_plan.read_plan(launch, flags, given, devices)
    if wanted.seq_len is None and length:
        launch.origin["training.seq_len"] = ("prompt and response, at most", flags.line("rollout-max-response-len"))
    if wanted.mbs is None:
        launch.origin["plan.mbs"] = (
            "slime's default, or what max-tokens-per-gpu holds",
            flags.line("max-tokens-per-gpu"),
        )
    flags.set_aside(*options(FORMAT)["no_bearing"].split(), "max-tokens-per-gpu")
    launch.set("training.framework", wanted.framework or "megatron_core", "slime trains with Megatron-Core")
    if supervised:
        launch.set("training.phase", "sft", "--loss-type", flags.line("loss-type"))
    else:
        samples = flags.given.get("n-samples-per-prompt", (["1"], None))
        name = flags.given.get("advantage-estimator", (["grpo"], None))
        kind = ALGORITHMS.get(name[0][0] if name[0] else "", "GRPO")
        what = f"rollouts of {samples[0][0] if samples[0] else 1} samples by SGLang beside the step"
        launched.post_training(launch, wanted, kind, what, ("--advantage-estimator", name[1]))
    flags.rest()
    return launch


def _defaults(flags: Flags) -> None:
    """What slime sets where a script does not."""
    for name in ("bf16", "use-distributed-optimizer"):
        flags.given.setdefault(name, ([], 0))
    for name in ("attention-dropout", "hidden-dropout"):
        flags.given.setdefault(name, (["0.0"], 0))
    if "fp16" in flags.given:
        flags.given.pop("bf16")


def _length(flags: Flags) -> int | None:
    """Tokens of a prompt and its answer, at most."""
    answer = flags.given.get("rollout-max-response-len")
    prompt = flags.given.get("rollout-max-prompt-len")
    sizes = [whole_number(own[0][0]) or 0 for own in (answer, prompt) if own and own[0]]
    return sum(sizes) or None


def _model(launch: Launch, flags: Flags, wanted: Wanted, script: Script, words: list[Word]) -> Wanted:
    """The model that a sourced file names, where the file is not there to be read."""
    from windtunnel import catalog
    from windtunnel.errors import BadInput

    known = {
        "use-gated-attention",
        "attention-output-gate",
        "spec",
        "experimental-attention-variant",
    } & flags.given.keys()
    if wanted.model is not None or ("num-layers" in flags.given and not known):
        return wanted
    checkpoint = flags.given.get("hf-checkpoint", ([], None))[0]
    sourced = [Path(name).stem for name, _ in script.missing if "models" in Path(name).parts]
    names = [*sourced, *(Path(name).name for name in checkpoint if "$" not in name)]
    for name in names:
        try:
            found = catalog.model(name).name
        except BadInput:
            continue
        launch.assumed.append(("model", found, f"by the name {name}, of the sourced file or the checkpoint"))
        flags.set_aside(*known)
        return replace(wanted, model=found)
    if script.missing:
        missing, line = script.missing[0]
        rule = "names the model and is not below the script's folder; --model names it"
        launch.wrong(f"source {missing}", rule, line=line)
    return wanted
