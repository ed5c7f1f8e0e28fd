"""Axis sizes that stand in names: launch files, job names, environments and remarks next to a row.

`tp8_pp4`, `TP4PP8`, `..._t8p4d2`, `8-way tensor parallelism`, `8x4x16`, and the names of MLPerf's launch files
(`config_DGXH100_64x8x32xtp4pp8cp2.sh`: nodes, devices of a node, sequences of a replica, axes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from windtunnel.validation.rows.parsing.context import Context
from windtunnel.validation.rows.parsing.hardware import canonical_device
from windtunnel.validation.rows.parsing.loose_values import count

_LARGEST = 65536
"""Ranks of an axis; larger figures next to its letters are something else."""

_MLPERF = re.compile(r"(?<![\dx])(\d+)x(\d+)x(\d+)x(?:tp)?(\d+)(?:x|_?pp)(\d+)(?:(?:x|_?cp)(\d+))?(?![\dx])")
_LETTERS = re.compile(
    r"(?<![a-wyz])(tp|pp|dp|cp|etp|ep|vpp|vp|mbs|micro_batch_size|gas|tensor|pipeline|data|context|expert)"
    r"(?:[ _-]?(?:model[ _-]?)?parallel\w*(?:[ _-](?:size|degree))?)?"
    r"(?:\s*(?:[=:_-]|of|is)?\s*)(?:\$\{\w+:[=-])?(\d+)(?![\d.]*[a-z]*b\b)"
)
_SHORT = re.compile(r"(?<![a-z\d])((?:[tpdc]\d{1,5}[_-]?){2,4})(?![a-z\d])")
_WAYS = re.compile(r"(\d+)[- ]?way[- ](tp|pp|dp|cp|ep|tensor|pipeline|data|context|expert)")
_TRIPLE = re.compile(r"(?<![\dx.])(\d+)\s?[x×]\s?(\d+)\s?[x×]\s?(\d+)(?!\s?[x×]?\d|\.\d|[x×])")
_ORDER = re.compile(r"\b(tp|pp|dp|t|p|d)\s?[x×*,/]\s?(tp|pp|dp|t|p|d)\s?[x×*,/]\s?(tp|pp|dp|t|p|d)\b")
_PHYSICAL = re.compile(r"torus|slice|topolog|\bici\b|tpu|mesh|nodes?\s?[x×]")
"""Words next to which three factors count devices in space, not ranks of axes."""

_AXES = {
    "t": "tp",
    "p": "pp",
    "d": "dp",
    "c": "cp",
    "tensor": "tp",
    "pipeline": "pp",
    "data": "dp",
    "context": "cp",
    "expert": "ep",
    "vp": "vpp",
    "micro_batch_size": "mbs",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLayout:
    """Axes in one name."""

    axes: dict[str, int]
    """Sizes of tp, pp, dp, cp, ep, etp, vpp; `mbs` and `gas` next to them."""
    devices: int | None = None
    """Devices that the name counts, where it does."""
    sequences: int | None = None
    """Sequences of a replica and step."""
    device: str | None = None
    """Device that the name is for, where it names one."""


def layout_in(text: str, devices: int | None = None) -> NamedLayout | None:
    """The axes that a name states, or None.

    Args:
        text: a file name, a job name, a phrase.
        devices: of the run; three factors without letters are axes only if they multiply to it.
    """
    text = text.lower()
    if found := _MLPERF.search(text):
        nodes, each, sequences, tp, pp, cp = (int(n) if n else 1 for n in found.groups())
        device = canonical_device(text[: found.start()].replace("_", " "))
        axes = {"tp": tp, "pp": pp, "cp": cp}
        extra = {name: size for name, size in _lettered(text[found.end() :]).items() if name in ("mbs", "gas")}
        return NamedLayout(axes=axes | extra, devices=nodes * each, sequences=sequences, device=device)
    axes = _lettered(text)
    if "tp" not in axes and "pp" not in axes and (triple := _triple(text, devices)):
        axes |= triple
    return NamedLayout(axes=axes) if axes else None


def _lettered(text: str) -> dict[str, int]:
    axes: dict[str, int] = {}
    for run in _SHORT.findall(text):
        sizes = {_AXES[letter]: int(size) for letter, size in re.findall(r"([tpdc])(\d+)", run)}
        if {"tp", "pp"} <= set(sizes):
            axes |= sizes
    for size, name in _WAYS.findall(text):
        axes.setdefault(_AXES.get(name, name), int(size))
    for name, size in _LETTERS.findall(text):
        axes.setdefault(_AXES.get(name, name), int(size))
    return {name: size for name, size in axes.items() if 1 <= size <= _LARGEST}


def _triple(text: str, devices: int | None) -> dict[str, int] | None:
    """Three factors that multiply to the devices: tensor, pipeline and data axis unless an order is named."""
    found = _TRIPLE.search(text)
    if found is None or devices is None or _PHYSICAL.search(text):
        return None
    sizes = [int(n) for n in found.groups()]
    if sizes[0] * sizes[1] * sizes[2] != devices:
        return None
    order = _ORDER.search(text)
    names = [_AXES.get(n, n) for n in order.groups()] if order else ["tp", "pp", "dp"]
    return dict(zip(names, sizes, strict=True)) if len(set(names)) == 3 else None


def fill_named_layout(ctx: Context, device: str, devices: int, batch: int | None) -> None:
    """Take axes that a row leaves out from the names next to it; the fields of the row win.

    A name counts if its axes fit the run: its devices, its own device, its sequences of a replica. Names for this very
    device come before names that tell none. Names that fit and disagree leave the axes open.

    Args:
        ctx: the row.
        device: of the run.
        devices: how many.
        batch: sequences of a step where they are stated.
    """
    stated = {axis: count(ctx.parallel.get(axis)) for axis in ("tp", "pp", "cp", "dp", "ep", "vpp")}
    if stated["tp"] and stated["pp"]:
        return
    layouts = [layout for text in ctx.names if (layout := layout_in(text, devices)) is not None]
    if any(layout.device not in (None, device) for layout in layouts):
        layouts = [layout for layout in layouts if layout.devices]  # settings next to them are of one of the files
    fitting = [layout for layout in layouts if _fits(layout, stated, device, devices, batch)]
    own = [layout for layout in fitting if layout.device == device]
    chosen = own or fitting
    axes = chosen[0].axes if chosen else {}
    if not axes or any(_conflict(axes, other.axes) for other in chosen[1:]):
        return
    for other in chosen[1:]:
        axes = axes | other.axes
    new = {name: size for name, size in axes.items() if name not in ("mbs", "gas") and not stated.get(name)}
    if not new:
        return
    ctx.parallel = {**ctx.parallel, **new}
    if axes.get("mbs") and count(ctx.fields.get("micro_batch")) is None:
        ctx.fields = {**ctx.fields, "micro_batch": axes["mbs"]}
    shown = ", ".join(f"{name} {size}" for name, size in new.items())
    ctx.assume("plan", shown, "from the name of a launch file, a job or a remark next to the row")


def _fits(layout: NamedLayout, stated: dict[str, int | None], device: str, devices: int, batch: int | None) -> bool:
    axes = layout.axes
    if "tp" not in axes and "pp" not in axes:
        return False
    if layout.devices not in (None, devices) or layout.device not in (None, device):
        return False
    if any(stated.get(name) not in (None, size) for name, size in axes.items()):
        return False
    replica = axes.get("tp", 1) * axes.get("pp", 1) * axes.get("cp", 1)
    if devices % replica or axes.get("dp") not in (None, devices // replica):
        return False
    return layout.sequences is None or batch is None or layout.sequences * (devices // replica) == batch


def _conflict(one: dict[str, int], other: dict[str, int]) -> bool:
    return any(one[name] != other[name] for name in one.keys() & other.keys())
