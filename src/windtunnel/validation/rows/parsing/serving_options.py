"""A serving row's options in its engine's own words, read by the importer of that engine.

What `data_parallel_size`, `max_num_seqs` or `kv_cache_dtype` means is said once, in `importers/`: a row that states the
options of a launch, or the command itself, becomes the same pool as `windtunnel import` makes of the command.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import yaml

from windtunnel.importers import sglang_serve, trtllm_serve, vllm_serve
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.server_command import canonical
from windtunnel.specs.model import ModelSpec
from windtunnel.specs.serving import PoolSpec
from windtunnel.validation.rows.parsing.serving_words import ServingContext

_IMPORTERS: dict[str, ModuleType] = {"vllm": vllm_serve, "sglang": sglang_serve, "trtllm": trtllm_serve}
_SIZES: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {"tp": ("tensor-parallel-size",), "pp": ("pipeline-parallel-size",)},
    "sglang": {
        "tp": ("tp-size", "tensor-parallel-size"),
        "pp": ("pp-size", "pipeline-parallel-size"),
        "ep": ("ep-size", "expert-parallel-size"),
    },
    "trtllm": {
        "tp": ("tp-size", "tensor-parallel-size"),
        "pp": ("pp-size", "pipeline-parallel-size"),
        "ep": ("ep-size", "moe-expert-parallel-size"),
    },
}
"""Sizes that a row states next to its configuration, by the spellings of the engine's option."""
_RECORD = ("moe_tp_size", "moe_ep_size", "attention_dp_size")
"""Words of AIConfigurator's records, whose `tp_size` is not the engine's option (`serving_layout`)."""


@dataclass(frozen=True, slots=True)
class StatedOptions:
    """What the options of a row say, as fields of a scenario."""

    pool: dict[str, Any] = field(default_factory=dict)
    """Fields of the pool: plan, limits, kv, replicas and what else the importer fills."""
    precision: dict[str, str] = field(default_factory=dict)
    """Formats that options decide; those that a checkpoint's name says are the row's to state."""


def stated_options(ctx: ServingContext, engine: str, model: ModelSpec, device: str) -> StatedOptions | str | None:
    """The pool that a row's options make; why there is none; None where a row does not speak in options.

    Args:
        ctx: the row.
        engine: whose options they are.
        model: what is served.
        device: catalogue id.
    """
    reader = _IMPORTERS.get(engine)
    if reader is None or any(name.endswith(_RECORD) for name in ctx.config):
        return None
    starts = reader.PROGRAM.starts
    command = next((v for v in ctx.config.values() if isinstance(v, str) and starts.place(v) is not None), None)
    given = {} if command else _settings(ctx, engine, reader)
    text = command or yaml.safe_dump({"model": model.name, **given})
    launch: Launch = reader.read(text, "config", Wanted(device=device, model=model.name, nodes=1, devices_per_node=8))
    said = {name for path, (name, _) in launch.origin.items() if path.startswith("serving.")}
    said |= {problem.field for problem in launch.problems}
    if command is None and not said & {canonical(name) for name in ctx.config}:
        return None
    if launch.problems:
        return "; ".join(f"config: {p.field} {p.rule}" for p in launch.problems)
    serving = launch.scenario()["serving"]
    if len(serving["pools"]) != 1:
        return f"config: the options of {len(serving['pools'])} pools, where a row has one"
    return StatedOptions(serving["pools"][0], _formats(launch, serving.get("precision", {}), given))


def _settings(ctx: ServingContext, engine: str, reader: ModuleType) -> dict[str, Any]:
    """A row's settings under the engine's names, and the sizes that stand next to them."""
    short = {key.lstrip("-"): name.lstrip("-") for key, name in reader.SHORT.items() if len(key.lstrip("-")) > 1}
    named = {canonical(name): value for name, value in ctx.config.items() if value is not None}
    found = {short.get(name, name): value for name, value in named.items() if name not in ("model", "model-path")}
    for axis, spellings in _SIZES[engine].items():
        size = ctx.row.get(axis)
        if isinstance(size, int) and size > 0 and not set(spellings) & set(found):
            found[spellings[0]] = size
    return found


def _formats(launch: Launch, precision: dict[str, str], given: dict[str, Any]) -> dict[str, str]:
    out = dict(precision)
    if launch.origin.get("serving.precision.weights", ("", None))[0] != "quantization":
        out.pop("weights", None)
    if "kv-cache-dtype" in given:  # auto: as activations are
        out.setdefault("kv_cache", "bf16")
    out.pop("experts", None)
    return out


def with_options(ctx: ServingContext, pool: PoolSpec) -> PoolSpec:
    """A pool as the row's options have it: what they state wins over what was filled in."""
    stated = {name: value for name, value in ctx.options.items() if name not in ("plan", "role")}
    if not stated:
        return pool
    own = pool.model_dump(exclude_unset=True)
    decided = set()
    for name, value in stated.items():
        if isinstance(value, dict):
            own[name] = {**own.get(name, {}), **value}
            decided |= {f"serving.{name}.{key}" for key in value}
        else:
            own[name] = value
    ctx.assumed = [entry for entry in ctx.assumed if entry[0] not in decided]
    return PoolSpec.model_validate(own)
