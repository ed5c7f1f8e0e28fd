"""`windtunnel import` of configurations: a launch file as a scenario, a Hugging Face config as a model."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from windtunnel.cli.output import note, print_json
from windtunnel.files.writing import write_text

if TYPE_CHECKING:
    from windtunnel.errors import Problem
    from windtunnel.importers.launch import Launch, Wanted


_MOST_BYTES = 1 << 22
"""Size of a file that is read whole as a configuration."""


def import_configuration(
    config: Path,
    format: str,
    wanted: Wanted,
    output: Path | None,
    as_json: bool,
    block: str | None = None,
    library: str | None = None,
    *,
    pasted: str = "",
) -> None:
    """Read a configuration and write the scenario or the model block that it states.

    Args:
        config: a file, a folder of a model or of scripts, or `-` for standard input.
        format: format of the file; empty: by its content.
        wanted: what the command line adds to a launch file.
        output: where to write; None: to standard output.
        as_json: print JSON on standard output.
        block: which of the blocks of a Markdown page, from 1; `all`: each of them.
        library: `transformers`, which counts a model config's parameters too; None: no library.
        pasted: text of the configuration, in the place of a file.

    Raises:
        BadInput: the file cannot be read as its format, a model config came with options of launch files, or a page
            has several blocks and none was chosen.
    """
    from windtunnel.errors import BadInput
    from windtunnel.importers import formats
    from windtunnel.importers.formats import launch_folder
    from windtunnel.importers.launch import Wanted

    scripts = launch_folder(config)
    text = scripts or pasted or ("" if config.is_dir() else _text(config))
    if block == "all":
        _every_block(text, config, format, wanted, output, as_json=as_json)
        return
    text = text if scripts else _chosen(text, str(config), _number(block))
    kind = format or (formats.HF_CONFIG if not text else formats.detect(text, str(config)))
    if kind == formats.HF_CONFIG:
        if wanted != Wanted(name=wanted.name):
            raise BadInput(
                f"{config}: is a model config, which only takes --name; the other options are for launch files"
            )
        _model(config, wanted.name or "", output, as_json, library)
        return
    if library is not None:
        raise BadInput(f"{config}: is no config.json of a model, whose parameters --with counts")
    beside = config if config.is_dir() else config.parent
    launch = formats.read(kind, text, str(beside / "*.sh" if scripts else config), wanted)
    if scripts:
        launch.forget_lines()
    _scenario(launch, wanted, output, as_json)


def _number(block: str | None) -> int | None:
    """The number of a block.

    Raises:
        BadInput: it is none.
    """
    from windtunnel.errors import BadInput

    if block is not None and not (block.isdigit() and int(block) > 0):
        raise BadInput(f"--block = {block}: must be a number from 1, or all")
    return int(block) if block is not None else None


def _every_block(text: str, config: Path, format: str, wanted: Wanted, output: Path | None, *, as_json: bool) -> None:
    """Read every block of a page that starts something, and write a scenario for each that can be read.

    Files are numbered as `--block` numbers the blocks: `recipe-2.yaml` next to `-o recipe.yaml`. What cannot be read is
    listed with its lines.

    Raises:
        BadInput: the page has no such block, or none of them can be read.
    """
    from windtunnel.errors import BadInput
    from windtunnel.importers import formats

    blocks = formats.page_blocks(text, str(config))
    if blocks is None:
        raise BadInput(f"{config}: is no Markdown page with fenced blocks, which --block chooses from")
    problems: list[Problem] = []
    found: list[Launch] = []
    for number, block in enumerate(blocks, 1):
        target = output.with_name(f"{output.stem}-{number}{output.suffix}") if output is not None else None
        try:
            kind = format or formats.detect(block.text, str(config))
            if kind == formats.HF_CONFIG:
                note(f"--block {number} (line {block.line}): a model config, which `import config.json` reads")
                continue
            launch = formats.read(kind, block.text, str(config), wanted)
            _checked(launch, wanted)
        except BadInput as error:
            problems += error.problems
            note(f"--block {number} (line {block.line}) is not read: {'; '.join(str(p) for p in error.problems)}")
            continue
        found.append(launch)
        _write(launch, target)
        if target is None and not as_json:
            typer.echo(f"---\n{launch.text()}", nl=False)
    if not found:
        raise BadInput(problems or f"{config}: no fenced block of this page starts something that is known")
    if as_json:
        print_json([launch.as_dict() for launch in found])


def numbered(output: Path) -> list[Path]:
    """The files next to an output that are named as those of the blocks of a page are."""
    name = re.compile(rf"{re.escape(output.stem)}-\d+{re.escape(output.suffix)}")
    return [one for one in output.parent.glob("*") if name.fullmatch(one.name)]


def _chosen(text: str, file: str, number: int | None) -> str:
    """The block of a Markdown page; any other text as it is."""
    from windtunnel.errors import BadInput, Problem
    from windtunnel.importers.formats import page_blocks

    blocks = page_blocks(text, file)
    if blocks is None:
        if number is not None:
            raise BadInput(f"{file}: is no Markdown page with fenced blocks, which --block chooses from")
        return text
    if not blocks:
        raise BadInput(f"{file}: no fenced block of this page is in a format that is recognised")
    if number is None and len(blocks) == 1:
        return blocks[0].text
    if number is None or number > len(blocks):
        problems = []
        for i, block in enumerate(blocks, 1):
            shown = " ".join(block.text.replace("\\\n", " ").split())
            under = f" under {block.heading!r}" if block.heading else ""
            rule = f"reads the block{under}: {shown[:100]}{'…' if len(shown) > 100 else ''}"
            problems.append(Problem(f"--block {i}", rule, file=file, line=block.line))
        raise BadInput(problems)
    return blocks[number - 1].text


def _text(config: Path) -> str:
    """The text of a file, or of standard input for `-`."""
    from windtunnel.errors import BadInput
    from windtunnel.files import reading

    if str(config) == "-":
        try:
            return sys.stdin.read()
        except UnicodeDecodeError:
            raise BadInput("standard input: must be UTF-8 text") from None
    return reading.read_text(config, most_bytes=_MOST_BYTES)


def pairs(env: list[str]) -> dict[str, str]:
    """Name → value of every `--env`.

    Raises:
        BadInput: an item is not NAME=VALUE; all such items are listed.
    """
    from windtunnel.errors import BadInput, Problem

    wrong = [Problem("--env", "must be NAME=VALUE", item) for item in env if not item.partition("=")[1]]
    if wrong:
        raise BadInput(wrong)
    return {name: value for name, _, value in (item.partition("=") for item in env)}


def fields_of(overrides: list[str]) -> dict[str, object]:
    """Field → value of every `--set`.

    Raises:
        BadInput: an item is not KEY=VALUE; all such items are listed.
    """
    from windtunnel.errors import BadInput, Problem
    from windtunnel.files.parsing import NotYaml, yaml_of

    found: dict[str, object] = {}
    wrong = []
    for item in overrides:
        name, equals, value = item.partition("=")
        try:
            found[name.strip()] = yaml_of(value)
        except NotYaml:
            equals = ""
        if not equals or name.split(".")[0].strip() not in _SECTIONS:
            wrong.append(Problem("--set", f"must be KEY=VALUE with a field of {', '.join(_SECTIONS)}", item))
    if wrong:
        raise BadInput(wrong)
    return found


_SECTIONS = ("model", "cluster", "training", "plan", "serving")


def _scenario(launch: Launch, wanted: Wanted, output: Path | None, as_json: bool) -> None:
    """Check and write the scenario that a launch file became."""
    _checked(launch, wanted)
    _write(launch, output)
    if as_json:
        print_json(launch.as_dict())
    elif output is None:
        typer.echo(launch.text(), nl=False)


def _checked(launch: Launch, wanted: Wanted) -> None:
    """List what was assumed and not read, and check that the scenario can be predicted.

    Raises:
        BadInput: the file, or the scenario that it became, has problems.
    """
    from windtunnel.errors import BadInput, Infeasible, Problem

    serving = "serving.engine" in launch.fields
    if wanted.name:
        launch.set("name", wanted.name, "--name")
    for field, value, why in () if launch.problems else launch.assumed:
        note(f"assumed {field} = {value}: {why}")
    if launch.unread:
        from windtunnel.errors import MOST_SHOWN_PROBLEMS

        listed = "; ".join(str(left) for left in launch.unread[:MOST_SHOWN_PROBLEMS])
        more = len(launch.unread) - MOST_SHOWN_PROBLEMS
        listed += f"; and {more:,} more" if more > 0 else ""
        note(f"not read ({len(launch.unread)}): {listed}")
    if launch.problems:
        if launch.post_training:
            for path, value in launch.fields.items():
                note(f"read: {path} = {value} ({launch.origin.get(path, ('the file', None))[0]})")
        if again := _asked(launch, wanted):
            note(f"with what the file does not hold: windtunnel import {launch.file} {again}")
        raise BadInput(launch.problems)
    try:
        if launch.format == "load":
            from windtunnel.scenarios.load import load_traffic_spec

            traffic = launch.scenario().get("serving", {}).get("traffic")
            if traffic is None:
                raise BadInput(Problem("", "states no requests, lengths or rate of a load that can be read"))
            load_traffic_spec(traffic)
        elif serving:
            from windtunnel.exporters.servers.deployed import deployed

            deployed(launch.scenario())
        else:
            from windtunnel.training import predict

            predict.prepare(launch.scenario())
    except BadInput as error:
        raise launch.located(error) from None
    except Infeasible as error:
        if not serving:
            raise
        note(f"this deployment does not run on {launch.fields['cluster.device']}: {error}")


def _write(launch: Launch, output: Path | None) -> None:
    """Write the scenario, and say what to do with it."""
    serving = "serving.engine" in launch.fields
    if output is not None:
        write_text(output, launch.text())
        if launch.format == "load":
            note(f"wrote {output}: a serving.traffic section for a scenario")
        else:
            note(f"wrote {output}; next: windtunnel {'serve' if serving else 'train'} {output}")
        if not serving and launch.format != "load":
            note(f"how far it is from the best plan: windtunnel plan {output} --free")


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
"""Option that a problem may ask for → placeholder of its value."""


def _asked(launch: Launch, wanted: Wanted) -> str:
    """The options to repeat the command with, those that are missing last; empty when options would not help."""
    words = [re.findall(r"[\w-]+", f"{p.field} {p.rule}") for p in launch.problems]
    missing = [next((name for name in _OPTIONS if name in own), None) for own in words]
    if None in missing:
        return ""
    said = wanted.options() | {name: _OPTIONS[name] for name in missing if name and name != "CONFIG"}
    again = [f"{name} {value}" for name, value in said.items()]
    again += [f"--set {k}={v}" for k, v in wanted.fields.items()] + [f"--without {name}" for name in wanted.without]
    again += [f"--env {k}={v}" for k, v in wanted.env.items()]
    return " ".join([*again, *(["--env CONFIG=NAME"] if "CONFIG" in missing else [])])


def _model(config: Path, name: str, output: Path | None, as_json: bool, library: str | None) -> None:
    """Write a Hugging Face config as a model block; with a library, say what it counts."""
    from windtunnel.catalog.parameters import count_parameters
    from windtunnel.errors import BadInput
    from windtunnel.importers.hf_config import load_hf_config, read_hf_config
    from windtunnel.importers.huggingface.library import count_with_transformers
    from windtunnel.quantities import count as shown

    built = None if library is None else count_with_transformers(load_hf_config(config), str(config))
    try:
        read = read_hf_config(config, name or None)
    except BadInput:
        if built is not None:
            note(f"transformers counts {built:,} parameters; no layers are read from the file")
        raise
    spec = read.model
    data = spec.model_dump(mode="json", exclude_defaults=True)
    data = {"name": spec.name, "family": spec.family} | data
    for field, value, why in read.assumed:
        note(f"assumed {field} = {value}: {why}")
    count = count_parameters(spec)
    active = f", {shown(count.active)} active" if spec.num_experts else ""
    note(f"{spec.name}: {shown(count.total)} parameters{active}")
    counted = data | {"parameters": count.total, "active_parameters": count.active}
    if built is not None:
        off = count.total / built - 1.0
        note(f"transformers counts {built:,} parameters, the layers read here {count.total:,} ({off:+.2%})")
        data["num_parameters_published"] = float(built)
        counted |= {"num_parameters_published": float(built), "parameters_by_transformers": built}
    if as_json and output is None:
        print_json(counted)
        return
    import yaml

    text = yaml.safe_dump({"model": data}, sort_keys=False, allow_unicode=True)
    if output is None:
        typer.echo(text, nl=False)
        return
    write_text(output, text)
    if as_json:
        print_json(counted)
    note(f"wrote {output}")
