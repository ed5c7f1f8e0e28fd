"""Finding and reading catalogue files: one YAML file an entry, names and aliases matched by meaning.

A lookup first tries the file name; only when that misses are the `name:` and `aliases:` lines of the other files of the
same kind scanned (as text, without parsing them), so adding an entry is adding one file. Released models are lines of
one file besides (`released_models`). Other distributions add files
through the entry-point groups `windtunnel.devices`, `.links`, `.clusters` and `.models`: the name of an entry point is
the id, its object the path of a YAML file.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from windtunnel.catalog import released_models
from windtunnel.data_files import parse_yaml
from windtunnel.errors import BadInput, Problem

ROOT = Path(__file__).parent
KINDS = ("devices", "links", "clusters", "models")
NOUNS = {"devices": "device", "links": "link", "clusters": "cluster", "models": "model"}

_LINE = re.compile(r"^(id|name|aliases):[ \t]*(.+)$", re.MULTILINE)
_PARENTHESES = re.compile(r"\([^)]*\)")
_TOKEN = re.compile(r"[a-z0-9.+]+")

# Words that say who made or packed a part, or which release of the weights it is; the dimensions do not depend on them.
NOISE = {
    "devices": frozenset(
        {
            "nvidia",
            "amd",
            "google",
            "cloud",
            "intel",
            "huawei",
            "aws",
            "geforce",
            "tesla",
            "instinct",
            "server",
            "workstation",
            "edition",
            "gpu",
            "pcap",
            "graphics",
            "chip",
            "pod",
            "interconnect",
        }
    ),
    "links": frozenset({"interconnect", "nvidia", "amd", "mellanox", "link"}),
    "clusters": frozenset({"nvidia", "node", "rack", "cluster", "system"}),
    "models": frozenset(
        {
            "instruct",
            "chat",
            "it",
            "hf",
            "base",
            "fp8",
            "nvfp4",
            "fp4",
            "mxfp4",
            "bf16",
            "awq",
            "gptq",
            "int8",
            "int4",
            "2407",
            "2507",
            "0528",
            "0324",
            "thinking",
            "w4a16",
            "pt",
        }
    ),
}


_ACTIVE = re.compile(r"(?<=\db)a\d+(\.\d+)?b$")
"""Active size at the end of a mixture's key."""


def key(text: str) -> str:
    """A spelling without case and punctuation: `H100-SXM 80GB` and `h100_sxm_80gb` are one key.

    A decimal point stays: `opt-1.3b` is not `opt-13b`.
    """
    return re.sub(r"(?<![0-9])\.|\.(?![0-9])|[^a-z0-9+.]", "", text.lower())


def _candidates(kind: str, text: str) -> list[str]:
    """Keys to try for a spelling, the most literal first."""
    without = _PARENTHESES.sub(" ", text)
    tails = [text, without]
    if kind == "models":
        tails += [t.rsplit("/", 1)[-1] for t in (text, without)]
    keys = [key(t) for t in tails]
    for tail in tails:
        words = [w for w in _TOKEN.findall(tail.lower()) if w not in NOISE[kind]]
        keys.append(key("".join(words)))
        if kind == "models" and words and re.fullmatch(r"v\d+(\.\d+)?", words[-1]):
            keys.append(key("".join(words[:-1])))
    return list(dict.fromkeys(k for k in keys if k))


@cache
def ids(kind: str) -> tuple[str, ...]:
    """Ids of one kind, sorted: file stems, names of entry points, and names of released models."""
    return tuple(sorted({*_stems(kind).values(), *_installed(kind), *_released(kind)}))


def _released(kind: str) -> list[str]:
    """Models that stand in a line with dimensions of their own."""
    return [name for name, line in released_models.lines().items() if line.like is None] if kind == "models" else []


@cache
def _stems(kind: str) -> dict[str, str]:
    return {key(path.stem): path.stem for path in (ROOT / kind).glob("*.yaml")}


@cache
def _installed(kind: str) -> dict[str, Path]:
    """Id → file of what other distributions add; a file of the catalogue keeps its id."""
    from importlib.metadata import entry_points

    own = set(_stems(kind).values())
    return {one.name: Path(one.load()) for one in entry_points(group=f"windtunnel.{kind}") if one.name not in own}


def _file(kind: str, stem: str) -> Path:
    path = ROOT / kind / f"{stem}.yaml"
    return path if path.is_file() else _installed(kind)[stem]


@cache
def headings(kind: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Stem → (name as displayed, aliases), from the heading lines of each file alone."""
    found = {}
    for stem in ids(kind):
        if kind == "models" and stem in released_models.lines():
            found[stem] = (stem, released_models.lines()[stem].aliases)
            continue
        lines = dict(_LINE.findall(_file(kind, stem).read_text("utf-8")))
        head = parse_yaml("\n".join(f"{k}: {v}" for k, v in lines.items())) or {}
        found[stem] = (str(head.get("name") or stem), tuple(str(a) for a in head.get("aliases") or ()))
    return found


@cache
def _spellings(kind: str) -> dict[str, str]:
    table: dict[str, str] = {}
    for stem, (name, aliases) in headings(kind).items():
        for spelling in (name, *aliases):
            table.setdefault(key(spelling), stem)
            tail = key(spelling.rsplit("/", 1)[-1])
            if kind == "models" and not tail.isdigit():  # the 16 of `ViT-B/16` is no name
                table.setdefault(tail, stem)
    if kind == "models":
        for line in released_models.lines().values():
            if line.like is not None and (base := table.get(key(line.like))):
                for spelling in (line.name, line.name.rsplit("/", 1)[-1], *line.aliases):
                    table.setdefault(key(spelling), base)
    return {**(_without_active(table) if kind == "models" else {}), **table, **{key(stem): stem for stem in ids(kind)}}


def _without_active(table: dict[str, str]) -> dict[str, str]:
    """Keys of mixtures without their active size and kind, where one model alone has it.

    `qwen3coder480b` stands for Qwen3-Coder-480B-A35B-Instruct.
    """
    plain = set()
    for spelling in spellings("models"):
        words = [w for w in _TOKEN.findall(spelling.rpartition("/")[2].lower()) if w not in NOISE["models"]]
        if (stem := table.get(key(spelling))) is not None:
            plain.add((key("".join(words)), stem))
    return _shortened(plain) | _shortened(table.items())


def _shortened(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Keys without the active size at their end → stem, where one stem alone has the rest."""
    found: dict[str, set[str]] = {}
    for name, stem in names:
        short = _ACTIVE.sub("", name)
        if short != name:
            found.setdefault(short, set()).add(stem)
    return {short: stems.pop() for short, stems in found.items() if len(stems) == 1}


def spellings(kind: str) -> Iterator[str]:
    """Names and aliases of all entries, and of checkpoints that are like one of them."""
    for name, aliases in headings(kind).values():
        yield from (name, *aliases)
    if kind == "models":
        for line in released_models.lines().values():
            if line.like is not None:
                yield from (line.name, *line.aliases)


MOST_OF_A_NAME = 300
"""Characters of a name that is looked for."""


def find(kind: str, text: str) -> str:
    """File stem of an entry by id, name or alias.

    Raises:
        BadInput: nothing in the catalogue has this name; the message lists the nearest ones.
    """
    stem = stem_of(kind, text)
    if stem is None:
        raise unknown(kind, text)
    return stem


def stem_of(kind: str, text: str) -> str | None:
    """As `find`; None where nothing in the catalogue has this name."""
    if len(text) > MOST_OF_A_NAME:
        return None
    tries = _candidates(kind, text)
    for table in (_stems, _spellings):
        for candidate in tries:
            stem = table(kind).get(candidate)
            if stem is not None:
                return stem
    return None


def unknown(kind: str, text: str) -> BadInput:
    """The error for a name that is not in the catalogue."""
    if len(text) > MOST_OF_A_NAME:
        rule = f"is no name: it has {len(text):,} characters, a name at most {MOST_OF_A_NAME}"
        return BadInput(Problem(field=NOUNS[kind], value=text, rule=rule))
    pool = {k: headings(kind)[stem][0] if kind == "models" else stem for k, stem in _spellings(kind).items()}
    close = difflib.get_close_matches(key(text), list(pool), n=8, cutoff=0.5)
    near = list(dict.fromkeys(pool[c] for c in close))[:3]
    hint = f" (close: {', '.join(near)})" if len(near) > 1 else "" if near else f" (see `windtunnel {kind}`)"
    return BadInput(
        Problem(field=NOUNS[kind], value=text, rule=f"not in the catalogue{hint}", nearest=near[0] if near else None)
    )


def read(kind: str, stem: str) -> dict[str, Any]:
    """One catalogue file, or the line of a released model, as plain data."""
    if kind == "models" and stem in released_models.lines():
        return released_models.read(stem)
    data = parse_yaml(_file(kind, stem).read_text("utf-8"))
    assert isinstance(data, dict), f"catalogue file {kind}/{stem}.yaml is not a mapping"
    return data


def sources(data: dict[str, Any]) -> dict[str, str]:
    """Field → "source, as of date", from the compact list `[{fields: [...], source: ..., as_of: ...}]` of a file."""
    table: dict[str, str] = {}
    for entry in data.get("sources") or ():
        text = f"{entry['source']}, as of {entry['as_of']}"
        for field in entry["fields"]:
            table[str(field)] = text
    return table
