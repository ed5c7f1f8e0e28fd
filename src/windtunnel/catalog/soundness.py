"""What `windtunnel catalog check` verifies: every number has a source and a date, and the numbers are plausible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from windtunnel import catalog
from windtunnel.catalog import released_models, store
from windtunnel.catalog.parameters import count_parameters
from windtunnel.errors import BadInput, Problem
from windtunnel.specs.device import DeviceSpec
from windtunnel.specs.model import ModelSpec

TOTAL_TOLERANCE = 0.01
"""Relative, on published parameter counts."""
ACTIVE_TOLERANCE = 0.17
"""Published active counts are rounded to a digit or two, and differ on whether the token tables count."""

# Fields of each kind of file that are numbers (or tables of numbers) and so need a source.
NUMBERS: dict[str, tuple[str, ...]] = {
    "devices": (
        "peak_flop_per_s",
        "memory_bytes",
        "memory_bytes_per_s",
        "l2_bytes",
        "num_sms",
        "clock_hz",
        "base_clock_hz",
        "idle_w",
        "tdp_w",
        "pcie_bytes_per_s",
        "price_per_hour",
    ),
    "links": ("bytes_per_s", "latency_s", "torus_axes"),
    "clusters": (
        "nodes",
        "devices_per_node",
        "scale_up_domain",
        "scale_out",
        "host_memory_bytes",
        "host_memory_bytes_per_s",
        "host_cores",
        "devices_per_host_link",
        "storage",
        "cxl",
        "power_cap_w",
        "price_per_device_hour",
    ),
}
_DATE = re.compile(r"as of \d{4}(-\d{2}){0,2}$")
_YEAR = re.compile(r"\d{4}(-\d{2}){0,2}")

# Plausible range of dense matrix rate over memory rate, FLOP per byte, in 16-bit formats of accelerators.
_BALANCE = (30.0, 1200.0)
_WITHOUT_MATRIX_UNITS = ("kepler", "pascal")
"""Generations whose products run on the vector lanes, below the range."""


def check_all() -> list[Problem]:
    """All problems of all catalogue files, in a fixed order."""
    problems: list[Problem] = []
    for kind in store.KINDS:
        problems.extend(_aliases(kind))
        for stem in store.ids(kind):
            problems.extend(check_entry(kind, stem))
    return problems


def check_entry(kind: str, stem: str) -> Iterator[Problem]:
    """Problems of one file."""
    file = _place(kind, stem)
    data = store.read(kind, stem)
    try:
        if kind == "devices":
            device = catalog.device(stem)
            yield from _device(device, file)
            node = data.get("default_node")
            if node:
                catalog.cluster(node)
        elif kind == "links":
            catalog.link(stem)
        elif kind == "clusters":
            cluster = catalog.cluster(stem)
            if cluster.scale_up_domain > cluster.num_devices and cluster.nodes > 1:
                yield _problem(file, "scale_up_domain", cluster.scale_up_domain, "must not exceed the devices in all")
        else:
            yield from check_model(catalog.model(stem), file)
    except BadInput as error:
        yield from (Problem(p.field, p.rule, p.value, p.nearest, file) for p in error.problems)
        return
    except ValueError as error:  # pydantic's complaint about the file itself
        yield _problem(file, stem, None, " ".join(str(error).split()))
        return
    if kind in NUMBERS:
        yield from check_sources(data, NUMBERS[kind], file)
        if data.get("id") != stem:
            yield _problem(file, "id", data.get("id"), "must be the file's name")


def check_sources(data: dict[str, Any], numbers: tuple[str, ...], file: str) -> Iterator[Problem]:
    """Every number of a file has a source with a date, and no source speaks of a field that is absent."""
    have = store.sources(data)
    for field in numbers:
        if field in data and field not in have:
            yield _problem(file, field, data[field], "must have a source")
    for field, text in have.items():
        if field.split(".")[0] not in data:
            yield _problem(file, f"sources.{field}", text, "names a field that the file does not have")
        if not _DATE.search(text):
            yield _problem(file, f"sources.{field}", text, "must end in a date (as_of: YYYY-MM)")
    if not _YEAR.fullmatch(str(data.get("as_of", ""))):
        yield _problem(file, "as_of", data.get("as_of"), "must be a date (YYYY-MM)")


def check_model(model: ModelSpec, file: str) -> Iterator[Problem]:
    """A model's counts against the published ones, and its provenance."""
    count = count_parameters(model)
    for field, counted, published, tolerance in (
        ("num_parameters_published", count.total, model.num_parameters_published, TOTAL_TOLERANCE),
        ("num_active_parameters_published", count.active, model.num_active_parameters_published, ACTIVE_TOLERANCE),
    ):
        if published and abs(counted / published - 1) > tolerance:
            rule = f"dimensions give {counted:.5g}, more than {tolerance:.0%} away"
            yield _problem(file, field, published, rule)
    if model.provenance is None or not model.provenance.source or not _YEAR.fullmatch(model.provenance.as_of):
        yield _problem(file, "provenance", None, "must have a source and a date (as_of: YYYY-MM)")


def _device(device: DeviceSpec, file: str) -> Iterator[Problem]:
    peaks: dict[str, float] = {str(k): v for k, v in device.peak_flop_per_s.items()}
    plain = device.vendor == "Apple" or device.generation in _WITHOUT_MATRIX_UNITS
    if device.kind in ("gpu", "tpu", "npu") and not plain:
        balance = device.peak("bf16") / device.memory_bytes_per_s
        if not _BALANCE[0] <= balance <= _BALANCE[1]:
            yield _problem(
                file,
                "peak_flop_per_s",
                balance,
                f"16-bit FLOP per byte of memory must be {_BALANCE[0]:g} to {_BALANCE[1]:g}",
            )
    for narrow, wide in (("fp16", "fp32"), ("bf16", "fp32"), ("fp8", "bf16"), ("fp4", "fp8")):
        if narrow in peaks and wide in peaks and peaks[narrow] < peaks[wide] * 0.999:
            yield _problem(file, f"peak_flop_per_s.{narrow}", peaks[narrow], f"must not be below {wide}")
    if device.idle_w and device.tdp_w and not 0 < device.idle_w < device.tdp_w:
        yield _problem(file, "idle_w", device.idle_w, "must be below tdp_w")
    if device.scale_up:
        catalog.link(device.scale_up)


def _aliases(kind: str) -> Iterator[Problem]:
    """Names and aliases lead to one entry each."""
    owner: dict[str, str] = {}
    for stem, (name, aliases) in store.headings(kind).items():
        for spelling in {store.key(s) for s in (stem, name, *aliases)}:
            other = owner.setdefault(spelling, stem)
            if other != stem:
                rule = f"also a name of {other}; aliases must be unique"
                yield _problem(_place(kind, stem), "aliases", spelling, rule)
    if kind == "models":
        for name, line in released_models.lines().items():
            if line.like is not None and store.key(line.like) not in owner:
                yield _problem(line.file, f"{name}.like", line.like, "must name a model of the catalogue")


def _place(kind: str, stem: str) -> str:
    """File, and name where many stand in one file, of an entry."""
    if kind == "models" and (line := released_models.lines().get(stem)):
        return f"{line.file}: {stem}"
    return f"catalog/{kind}/{stem}.yaml"


def _problem(file: str, field: str, value: Any, rule: str) -> Problem:
    return (
        Problem(field=field, rule=rule, value=value, file=file)
        if value is not None
        else Problem(field=field, rule=rule, file=file)
    )
