"""What the reader may look at, and the list of what it had to assume."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from windtunnel.validation.rows.parsing.loose_values import mapping, words

CONFIGURATION = (
    "family",
    "phase",
    "model",
    "seq_len",
    "global_batch",
    "micro_batch",
    "grad_accum",
    "hardware",
    "parallel",
    "recompute",
    "offload",
    "precision",
    "attention",
    "framework",
    "optimizer",
    "overlap",
    "compile",
)
"""Fields of a row that a scenario may depend on. Identity, source and measurements are not among them; of notes, axis
sizes alone are read."""

Assumable = Literal["plan", "precision", "recompute", "network"]
"""What a row may leave open that changes its prediction by more than the cost model's own error."""

_OUTCOME = re.compile(
    r"predict|simulat|mfu|hfu|tflop|throughput|tokens_per|samples_per|per_s(ec)?(_|$)|step_time|iteration_time"
    r"|(^|_)(value|speedup|latency|error)(_|$)|(^|_)loss$|reported|measured|notes?$|footnote|(^|_)mem(ory)?_(gib|gb|kind)"
    r"|recipe$|commit"
)
"""Names inside `extra` that carry outcomes, provenance or another simulator's answer."""


@dataclass(kw_only=True)
class Context:
    """One row's configuration, stripped of everything a prediction must not see."""

    family: str
    framework: str
    fields: dict[str, Any]
    model: dict[str, Any]
    hardware: dict[str, Any]
    parallel: dict[str, Any]
    extra: dict[str, Any]
    engine: str = ""
    """Software that a bare library or a vendor's container stands for; rules see it next to `framework`."""
    names: tuple[str, ...] = ()
    """Names and remarks next to the fields, in which axis sizes may stand; nothing else is read from them."""
    assumed: list[tuple[str, str, str]] = field(default_factory=list)
    assumed_fields: set[str] = field(default_factory=set)
    """Subjects of which something was not stated but assumed (`Assumable`), and `precision=FORMAT` for each other
    format that a row names."""

    def assume(self, name: str, value: object, why: str, *, leaves_open: Assumable | None = None) -> None:
        """Record an opening that was filled; one entry a field, the first reason stays.

        Args:
            name: field of the scenario.
            value: what was taken.
            why: reason, shown to users.
            leaves_open: the subject that the row does not state; None where a statement was only made to fit.
        """
        if leaves_open is not None:
            self.assumed_fields.add(leaves_open)
        if all(name != seen for seen, _, _ in self.assumed):
            self.assumed.append((name, str(value), why))

    def merge(self, names: tuple[str, ...], into: str, why: str) -> None:
        """Make one entry of several that have one cause; nothing happens below two."""
        found = [(name, value) for name, value, _ in self.assumed if name in names]
        if len(found) < 2:
            return
        self.assumed = [entry for entry in self.assumed if entry[0] not in names]
        shown = ", ".join(f"{name.rsplit('.', 1)[-1]} {value}" for name, value in found)
        self.assumed.append((into, shown, why))

    def text(self, name: str) -> str:
        """A configuration field as lower-case words."""
        return words(self.fields.get(name))


def _record(value: Any, key: str) -> dict[str, Any]:
    """A mapping, or the one of a bare string's single field."""
    return {key: value} if isinstance(value, str) else mapping(value)


def _axes(value: Any) -> dict[str, Any]:
    """Axis sizes as a mapping, or out of a phrase such as `TP8 PP4 DP=2`."""
    if isinstance(value, str):
        found = re.findall(r"\b(tp|pp|dp|cp|ep|etp|vpp)\s*[=:x-]?\s*(\d+)", value.lower())
        return {name: int(size) for name, size in found}
    return mapping(value)


def _names(row: dict[str, Any]) -> tuple[str, ...]:
    """Strings in which axis sizes may stand: a phrase for `parallel`, remarks, names of launch files and jobs."""
    remarks = [row.get("parallel"), row.get("notes"), row.get("framework"), row.get("phase")]
    for part in ("parallel", "hardware", "model"):
        source = mapping(row.get(part))
        remarks += [source.get(key) for key in ("notes", "note", "layout", "mapping", "comment")]
    remarks.append(mapping(row.get("model")).get("name"))
    remarks += [value for key, value in mapping(row.get("extra")).items() if not _OUTCOME.search(key.lower())]
    found: list[str] = []
    for remark in remarks:
        if isinstance(remark, dict):
            found.append("; ".join(f"{key}: {words(value)}" for key, value in remark.items()))
        elif isinstance(remark, (list, tuple)):
            found += [value for value in remark if isinstance(value, str)]
        elif isinstance(remark, str):
            found.append(remark)
    return tuple(text for text in found if re.search(r"\d", text) and len(text) < 2000)


def context(row: dict[str, Any]) -> Context:
    """The part of a row that describes the run."""
    fields = {name: row.get(name) for name in CONFIGURATION}
    hidden = {"notes", "dims_source", "source", "id"}
    return Context(
        family=words(row.get("family")),
        framework=words(row.get("framework")),
        fields=fields,
        model={k: v for k, v in _record(row.get("model"), "name").items() if k not in hidden},
        hardware={k: v for k, v in _record(row.get("hardware"), "device").items() if k not in hidden},
        parallel={k: v for k, v in _axes(row.get("parallel")).items() if k not in hidden},
        extra={k: v for k, v in mapping(row.get("extra")).items() if not _OUTCOME.search(k.lower())},
        names=_names(row),
    )
