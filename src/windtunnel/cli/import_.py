"""`windtunnel import`: other tools' files as a model, a scenario (launch configurations) or traffic (traces)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from windtunnel.cli import complete
from windtunnel.cli.import_module import import_module, module_target
from windtunnel.cli.import_trace import import_trace, trace_format
from windtunnel.cli.options import AsJson, examples
from windtunnel.cli.output import check_targets, note, print_json

if TYPE_CHECKING:
    from windtunnel.importers.launch import Launch, Wanted

_LAUNCH = "Launch files: "
_TRACE = "Traces: "


def import_(
    config: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            show_default=False,
            help="Hugging Face config.json, Megatron-LM script or flags, DeepSpeed JSON, torchtitan TOML or Python, "
            "Megatron-Bridge Python, YAML or overrides, commands or YAML of vLLM, SGLang or TensorRT-LLM, or a trace "
            "of requests, or FILE.py:NAME for a PyTorch module; `-` reads standard input.",
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
            help=_LAUNCH + "catalogue name of the model; absent: as in the file.", autocompletion=complete.models
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
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to stdout.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a Hugging Face config into a model, a launch configuration into a scenario, a trace into traffic.

    FILE.py:NAME lists the operators of a PyTorch module (a class, a module, or a function that returns one).

    Launch configurations: Megatron-LM arguments, DeepSpeed JSON, torchtitan TOML or Python, Megatron-Bridge settings;
    `vllm serve`, `sglang.launch_server`, `trtllm-serve`, with the load that a benchmark in the same script sends.
    Traces of requests: Azure, BurstGPT, Mooncake, Bailian, ShareGPT, results of vLLM's bench, aiperf.
    """
    from windtunnel.errors import BadInput
    from windtunnel.importers import formats
    from windtunnel.importers.formats import launch_folder
    from windtunnel.importers.launch import Wanted
    from windtunnel.importers.traces import TRACES, Options

    check_targets(output, inputs=[config])
    if output is not None and output.exists() and not force:
        raise BadInput(f"{output}: exists already; --force overwrites it")
    if format and format not in (known := [*formats.names(), *TRACES.list()]):
        raise BadInput(f"--format = {format}: must be one of {', '.join(known)}")
    said = (time_unit, block_size, characters_per_token)
    of_launch = (device, nodes, devices_per_node, model, name, seq_len, global_batch, mbs, vocab_size, framework, env)
    if target := module_target(config):
        if any(of_launch) or format or said != (None, None, None):
            raise BadInput(f"{config}: is a PyTorch module, which only takes --input")
        import_module(*target, input or [], output, as_json)
        return
    if input:
        raise BadInput(f"{config}: is no FILE.py:NAME; --input is for PyTorch modules")
    if kind := trace_format(config, format):
        if time_unit not in (None, "s", "ms"):
            raise BadInput(f"--time-unit = {time_unit}: must be s or ms")
        if any(of_launch):
            raise BadInput(f"{config}: is a trace, which takes --time-unit, --block-size and --characters-per-token")
        unit = cast("Literal['s', 'ms'] | None", time_unit)
        import_trace(config, kind, Options(unit, block_size, characters_per_token, "--{}"), output, as_json)
        return
    if said != (None, None, None):
        raise BadInput(f"{config}: is no trace; --time-unit, --block-size and --characters-per-token are for traces")
    scripts = launch_folder(config)
    text = scripts or ("" if config.is_dir() else _text(config))
    kind = format or (formats.HF_CONFIG if not text else formats.detect(text, str(config)))
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
        env=_pairs(env or []),
    )
    if kind == formats.HF_CONFIG:
        if wanted != Wanted(name=name or None):
            raise BadInput(
                f"{config}: is a model config, which only takes --name; the other options are for launch files"
            )
        _model(config, name, output, as_json)
    else:
        beside = config if config.is_dir() else config.parent
        launch = formats.read(kind, text, str(beside / "*.sh" if scripts else config), wanted)
        if scripts:
            launch.forget_lines()
        _scenario(launch, wanted, output, as_json)


def _text(config: Path) -> str:
    from windtunnel.errors import BadInput

    if str(config) == "-":
        return sys.stdin.read()
    try:
        return config.read_text("utf-8")
    except UnicodeDecodeError:
        raise BadInput(f"{config}: is not text in UTF-8") from None


def _pairs(env: list[str]) -> dict[str, str]:
    from windtunnel.errors import BadInput, Problem

    wrong = [Problem("--env", "must be NAME=VALUE", item) for item in env if not item.partition("=")[1]]
    if wrong:
        raise BadInput(wrong)
    return {name: value for name, _, value in (item.partition("=") for item in env)}


def _scenario(launch: Launch, wanted: Wanted, output: Path | None, as_json: bool) -> None:
    """Check and write what a launch file became."""
    from windtunnel.errors import BadInput

    serving = "serving.engine" in launch.fields
    if wanted.name:
        launch.set("name", wanted.name, "--name")
    for field, value, why in launch.assumed:
        note(f"assumed {field} = {value}: {why}")
    for left in launch.unread:
        note(f"not read: {left}")
    if launch.problems:
        if again := _asked(launch, wanted):
            note(f"with what the file does not hold: windtunnel import {launch.file} {again}")
        raise BadInput(launch.problems)
    try:
        if serving:
            from windtunnel.exporters.servers.deployed import deployed

            deployed(launch.scenario())
        else:
            from windtunnel.training import predict

            predict.prepare(launch.scenario())
    except BadInput as error:
        raise launch.located(error) from None
    if output is not None:
        output.write_text(launch.text(), encoding="utf-8")
        note(f"wrote {output}; next: windtunnel {'serve' if serving else 'train'} {output}")
        if not serving:
            note(f"how far it is from the best plan: windtunnel plan {output} --free")
    if as_json:
        print_json(launch.as_dict())
    elif output is None:
        typer.echo(launch.text(), nl=False)


_OPTIONS = {
    "--device": "h100-sxm-80gb",
    "--nodes": "N",
    "--devices-per-node": "N",
    "--model": "NAME",
    "--seq-len": "N",
    "--global-batch": "N",
    "--mbs": "N",
    "--vocab-size": "N",
    "CONFIG": "NAME",
}
"""Option that a problem may ask for → what stands for its value."""


def _asked(launch: Launch, wanted: Wanted) -> str:
    """All options that are missing in one line, after those that were given; nothing when other things are wrong."""
    missing = [next((name for name in _OPTIONS if name in f"{p.field} {p.rule}"), None) for p in launch.problems]
    if None in missing:
        return ""
    said = wanted.options() | {name: _OPTIONS[name] for name in missing if name and name != "CONFIG"}
    words = [f"{name} {value}" for name, value in said.items()] + [f"--env {k}={v}" for k, v in wanted.env.items()]
    return " ".join([*words, *(["--env CONFIG=NAME"] if "CONFIG" in missing else [])])


def _model(config: Path, name: str, output: Path | None, as_json: bool) -> None:
    """Write a Hugging Face config as a model block."""
    from windtunnel.importers.hf_config import read_hf_config

    read = read_hf_config(config, name or None)
    spec = read.model
    data = spec.model_dump(mode="json", exclude_defaults=True)
    data = {"name": spec.name, "family": spec.family} | data
    for field, value, why in read.assumed:
        note(f"assumed {field} = {value}: {why}")
    if as_json and output is None:
        print_json(data)
        return
    import yaml

    text = yaml.safe_dump({"model": data}, sort_keys=False, allow_unicode=True)
    if output is None:
        typer.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    if as_json:
        print_json(data)
    note(f"wrote {output}")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    lines = (
        "import config.json -o model.yaml",
        "import train.sh --device h100-sxm-80gb --nodes 16 -o scenario.yaml",
        "import ds_config.json --model meta-llama/Llama-3.1-8B --seq-len 4096 --device a100-sxm-80gb --nodes 2",
        "import train.toml --device h100-sxm-80gb --nodes 1",
        "import serve.sh --device h100-sxm-80gb -o scenario.yaml",
        "import requests.csv -o traffic.yaml",
        "import model.py:build --input 2x4096:int64 -o operators.yaml",
    )
    app.command("import", epilog=examples(*lines))(import_)
