"""`windtunnel import`: other tools' files as a model, a scenario (launch configurations) or traffic (traces)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from windtunnel.cli import complete
from windtunnel.cli.complete_settings import settings
from windtunnel.cli.import_launch import fields_of, import_configuration, numbered, pairs
from windtunnel.cli.import_module import import_module, module_target
from windtunnel.cli.import_trace import import_trace, trace_format, trace_options
from windtunnel.cli.options import AsJson, Trust, examples
from windtunnel.cli.output import check_new, check_targets

_LAUNCH = "Launch files: "
_TRACE = "Traces: "


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Hugging Face config.json, Megatron-LM script or flags, DeepSpeed JSON, torchtitan TOML or Python, "
            "Megatron-Bridge Python, YAML or overrides, Axolotl, LLaMA-Factory, torchtune or TRL files and commands of "
            "fine-tuning, commands or YAML of vLLM, SGLang or TensorRT-LLM (scripts, "
            "docker, compose, Kubernetes, Markdown pages), a trace of requests, or FILE.py:NAME for a PyTorch module; "
            "`-` reads standard input, and a command in quotes is read as it stands.",
        ),
    ],
    name: Annotated[str, typer.Option(help="Name of the model; absent: what the file says, or the folder's.")] = "",
    format: Annotated[
        str,
        typer.Option(help="Format of the file; absent: by its content.", autocompletion=complete.launch_formats),
    ] = "",
    device: Annotated[
        str | None, typer.Option(help=_LAUNCH + "catalogue id of the device.", autocompletion=complete.devices)
    ] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help=_LAUNCH + "nodes; absent: as in the file.")] = None,
    devices_per_node: Annotated[
        int | None, typer.Option(min=1, help=_LAUNCH + "devices in a node; absent: as in the file.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help=_LAUNCH + "catalogue name of the model, or its config.json; absent: as in the file.",
            autocompletion=complete.models,
        ),
    ] = None,
    seq_len: Annotated[int | None, typer.Option(min=1, help=_LAUNCH + "tokens per sequence.")] = None,
    global_batch: Annotated[int | None, typer.Option(min=1, help=_LAUNCH + "sequences per step.")] = None,
    mbs: Annotated[int | None, typer.Option(min=1, help=_LAUNCH + "sequences per micro-batch.")] = None,
    vocab_size: Annotated[
        int | None, typer.Option(min=1, help=_LAUNCH + "vocabulary, when a tokenizer has it.")
    ] = None,
    framework: Annotated[str | None, typer.Option(help=_LAUNCH + "whose defaults to use.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            show_default=False,
            help="Scripts: a variable or positional parameter that comes from outside; Python: CONFIG names the "
            "function (repeatable).",
        ),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(
            metavar="N|all",
            help="Markdown pages: which of the fenced blocks that start something, from 1; `all`: a scenario each.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help=_LAUNCH + "a field of the scenario that the file does not state, e.g. plan.tp=8 (repeatable).",
            autocompletion=settings,
            show_default=False,
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SETTING",
            show_default=False,
            help=_LAUNCH + "go on without this setting, which is not read; `rest`: without all such (repeatable).",
        ),
    ] = None,
    time_unit: Annotated[str | None, typer.Option(metavar="s|ms", help=_TRACE + "unit of its times.")] = None,
    block_size: Annotated[int | None, typer.Option(min=1, help=_TRACE + "tokens of one prefix hash.")] = None,
    characters_per_token: Annotated[
        float | None, typer.Option(min=0.01, help=_TRACE + "for files that hold text, not counts; absent: 4.")
    ] = None,
    input: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SIZES:DTYPE",
            show_default=False,
            help="PyTorch modules: an example input, such as 2x4096:int64 (repeatable, in order).",
        ),
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="transformers",
            show_default=False,
            help="Model configs: count parameters with this library too, where it is installed (extra oracle).",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Turn a launch file, a config.json or a trace into a scenario.

    A Hugging Face config becomes a model, a launch configuration a scenario, a trace traffic.

    FILE.py:NAME lists the operators of a PyTorch module (a class, a module, or a function that returns one).

    Launch configurations: Megatron-LM arguments, DeepSpeed JSON, torchtitan TOML or Python, Megatron-Bridge settings;
    fine-tuning with Axolotl, LLaMA-Factory, torchtune, TRL and Accelerate, with LoRA, QLoRA or DoRA;
    `vllm serve`, `sglang.launch_server`, `trtllm-serve`, with the load that a benchmark in the same script sends.
    Traces of requests: Azure, BurstGPT, Mooncake, Bailian, ShareGPT, results of vLLM's bench, aiperf.
    """
    from windtunnel.errors import BadInput
    from windtunnel.importers import formats
    from windtunnel.importers.launch import Wanted
    from windtunnel.importers.traces import TRACES

    del trust  # the option acts as it is read
    config, pasted = Path(source), _pasted(source)
    check_targets(output, inputs=[config])
    for target in numbered(output) if output is not None and block == "all" else (output,):
        check_new(target, force=force)
    if format and format not in (known := [*formats.names(), *TRACES.list()]):
        raise BadInput(f"--format = {format}: must be one of {', '.join(known)}")
    if library not in (None, "transformers"):
        raise BadInput(f"--with = {library}: must be transformers")
    of_trace = any(x is not None for x in (time_unit, block_size, characters_per_token))
    wanted = Wanted(
        device=device,
        nodes=nodes,
        devices_per_node=devices_per_node,
        model=model,
        name=name or None,
        seq_len=seq_len,
        global_batch=global_batch,
        mbs=mbs,
        vocab_size=vocab_size,
        framework=framework,
        env=pairs(env or []),
        fields=fields_of(overrides or []),
        without=tuple(without or ()),
    )
    if pasted:
        if input or of_trace:
            raise BadInput("a pasted command takes the options of launch files")
        import_configuration(Path("-"), format, wanted, output, as_json, block, library, pasted=pasted)
    elif module := module_target(config):
        if wanted != Wanted() or format or of_trace:
            raise BadInput(f"{config}: is a PyTorch module, which only takes --input")
        import_module(*module, input or [], output, as_json)
    elif input:
        raise BadInput(f"{config}: is no FILE.py:NAME; --input is for PyTorch modules")
    elif kind := trace_format(config, format):
        options = trace_options(time_unit, block_size, characters_per_token)
        if wanted != Wanted():
            raise BadInput(f"{config}: is a trace, which takes --time-unit, --block-size and --characters-per-token")
        import_trace(config, kind, options, output, as_json)
    elif of_trace:
        raise BadInput(f"{config}: is no trace; --time-unit, --block-size and --characters-per-token are for traces")
    else:
        import_configuration(config, format, wanted, output, as_json, block, library)


def _pasted(source: str) -> str:
    """The text of a command that stands where a file does; empty for the name of a file."""
    options = any(re.match(r"--?[A-Za-z]", word) for word in source.split()[1:])
    return f"{source}\n" if options and " " in source.strip() and not Path(source).exists() else ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    lines = (
        "import config.json -o model.yaml",
        "import config.json --json --with transformers",
        "import train.sh --device h100-sxm-80gb --nodes 16 -o scenario.yaml",
        "import ds_config.json --model meta-llama/Llama-3.1-8B --seq-len 4096 --device a100-sxm-80gb --nodes 2",
        "import train.toml --device h100-sxm-80gb --nodes 1",
        "import qlora.yaml --device rtx-4090",
        "import 'vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2' --device h100-sxm-80gb",
        "import serve.sh --device h100-sxm-80gb -o scenario.yaml",
        "import README.md --block 2 --device h200-sxm-141gb --model config.json",
        "import README.md --block all --device h200-sxm-141gb -o recipe.yaml",
        "import requests.csv -o traffic.yaml",
        "import model.py:build --input 2x4096:int64 -o operators.yaml",
    )
    app.command("import", epilog=examples(*lines))(import_)
