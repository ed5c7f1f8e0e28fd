"""Techniques as data and as text: what lists, searches, pages and bibliographies say of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from windtunnel.errors import BadInput
from windtunnel.techniques import REGISTRY, conflict
from windtunnel.techniques.base import Applied, Knob, Technique

_LINK = re.compile(r"https?://[^\s,;)]+")


def record(technique: Technique, *, conflicts: bool = False) -> dict[str, Any]:
    """Everything that a technique declares, as plain data.

    Args:
        technique: any, also one of another package.
        conflicts: also look for techniques that it does not go with.
    """
    paper = technique.paper
    found = {
        "id": technique.id,
        "family": technique.family,
        "status": technique.status,
        "kind": technique.kind,
        "use": technique.use,
        "paper": f"{paper.title} ({paper.year})",
        "authors": paper.authors,
        "summary": technique.summary,
        "mechanism": mechanism(technique),
        "link": paper.link,
        "levels": list(technique.levels),
        "acts_on": list(technique.scopes),
        "relieves": technique.relieves,
        "saves": technique.saves,
        "quality": technique.quality,
        "adds": technique.adds,
        "where": dict(technique.where),
        "knobs": {name: knob_record(knob) for name, knob in technique.knobs.items()},
        "selects": dict(technique.selects),
        "after": list(technique.after),
        "requires": list(technique.requires),
        "experiment": technique.experiment,
        "missing": technique.missing,
        "citation": paper.bibtex(technique.id),
    }
    return found | ({"conflicts": conflicting(technique)} if conflicts else {})


def knob_record(knob: Knob) -> dict[str, Any]:
    """A knob as plain data."""
    return {"default": knob.default, "low": knob.low, "high": knob.high, "choices": list(knob.choices), "doc": knob.doc}


def default(knob: Knob) -> str:
    """Its value when a scenario names none."""
    if knob.default is None:
        return "absent"
    return str(knob.default).lower() if isinstance(knob.default, bool) else str(knob.default)


def allowed(knob: Knob) -> str:
    """What a knob may be, in words; empty where anything goes."""
    if knob.choices:
        return ", ".join(map(str, knob.choices))
    if isinstance(knob.default, bool):
        return "true, false"
    if knob.low is None and knob.high is None:
        return ""
    if knob.high is None:
        return f"{knob.low:g} or more"
    return f"{knob.high:g} or less" if knob.low is None else f"{knob.low:g} to {knob.high:g}"


def mechanism(technique: Technique) -> str:
    """What it does and what that costs, paragraphs apart; its summary where nothing says so."""
    text = technique.mechanism or getattr(_module(technique), "__doc__", "") or ""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "\n\n".join(paragraphs) or technique.summary


def _module(technique: Technique) -> Any:
    """The module of a plug-in that holds the technique; None for our own."""
    known = list(sys.modules.values())
    return next((m for m in known if m is not None and vars(m).get("TECHNIQUE") is technique), None)


def conflicting(technique: Technique) -> dict[str, str]:
    """Technique → why it does not go with this one, all knobs at their defaults."""
    mine = _at_defaults(technique)
    found = {id: conflict(mine, _at_defaults(other)) for id, other in REGISTRY.items() if id != technique.id}
    return {id: why for id, why in found.items() if why}


def _at_defaults(technique: Technique) -> Applied:
    return Applied(technique, {name: knob.default for name, knob in technique.knobs.items()})


def matches(found: dict[str, Any], words: Sequence[str]) -> bool:
    """Whether all words occur in a record: in names, text, knobs, options or the paper."""
    text = " ".join(_texts(found)).casefold()
    return all(word.casefold() in text for word in words)


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    else:
        yield str(value)


def bibtex(ids: Iterable[str], lines: Iterable[str] = ()) -> str:
    """Entries of techniques, each paper once, and of other works that a result cites.

    Args:
        ids: of techniques; those of packages that are gone are left out.
        lines: `TrainingResult.citations`, one a work; those of the techniques are in them.
    """
    entries: dict[str, str] = {}
    for id in ids:
        try:
            paper = REGISTRY.get(id).paper
        except BadInput:
            continue
        entries.setdefault(paper.link, paper.bibtex(id))
    for line in lines:
        found = _LINK.search(line)
        link = found.group() if found else line
        if link not in entries:
            entries[link] = _misc(line, link if found else "")
    return "\n\n".join(entries.values()) + "\n" if entries else ""


def _misc(line: str, link: str) -> str:
    year = re.search(r"\b(?:19|20)\d\d\b", line)
    key = re.sub(r"[^a-z0-9]+", "-", line.casefold())[:40].strip("-")
    fields = [("note", line), ("year", year.group() if year else ""), ("url", link)]
    return f"@misc{{{key},\n" + ",\n".join(f"  {name} = {{{value}}}" for name, value in fields if value) + "\n}"
