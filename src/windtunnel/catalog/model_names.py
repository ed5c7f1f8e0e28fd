"""The model behind the name of a checkpoint: fine-tunes, formats and local folders lead to what they were made from.

A name that the catalogue does not have is read as words. The model whose words it has in their order, with what says
its size, and the most of them, is its base, unless other words of it stand for another network (a draft, a pruned or a
composed model) or for another size or generation. A model without a size in its name is the base of names that go on
with a date or with a word for a later training.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from windtunnel import catalog
from windtunnel.catalog import store
from windtunnel.catalog.checkpoints import named_format
from windtunnel.data_files import read_yaml
from windtunnel.errors import BadInput

if TYPE_CHECKING:
    from windtunnel.specs.model import ModelSpec

_HUB_FOLDER = re.compile(r"models--([\w.-]+?)--([\w.-]+)")
_WORD = re.compile(
    r"\d+(?:\.\d+)?x\d+(?:\.\d+)?[bm](?![a-z])|(?<![a-z])[ae]\d+(?:\.\d+)?[bm](?![a-z])|\d+(?:\.\d+)?[bmt](?![a-z])"
    r"|[a-z]+|\d+(?:\.\d+)*"
)
_SIZE = re.compile(r"\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?[bmt]|[ae]\d+(?:\.\d+)?[bm]")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_SILENT = frozenset({"v", "meta", "hf"})
"""Words that a name may have or not."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model of the catalogue, found by the name of a checkpoint."""

    model: ModelSpec
    format: str | None
    """Format of its weights that the name says."""
    why: str | None
    """How the model follows from the name; None where the catalogue has the name itself."""


def checkpoint(name: str) -> Checkpoint:
    """The model of a checkpoint by its name, its folder, or the name of what was tuned from it.

    Raises:
        BadInput: no model follows from the name; says the nearest ones, and that the checkpoint's config.json serves.
    """
    if len(name) > store.MOST_OF_A_NAME:
        raise store.unknown("models", name)
    base, format = named_format(name.rstrip("/"))
    for spelling in dict.fromkeys((name, base, *_parts(base))):
        if store.stem_of("models", spelling) is not None:
            return Checkpoint(catalog.model(spelling), format, None)
    for spelling in dict.fromkeys(_parts(base)):
        if (found := _listed_base(spelling) or _by_words(spelling)) is not None:
            model = catalog.model(found)
            return Checkpoint(model, format, f"{model.name} is the base that the name {name} has in it")
    raise _unknown(name)


def _parts(name: str) -> Iterator[str]:
    """Spellings inside a path: a repository in the cache of Hugging Face, the last part, the last two together."""
    if (cached := _HUB_FOLDER.search(name)) is not None:
        yield f"{cached[1]}/{cached[2]}"
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    yield from parts[-1:]
    if len(parts) > 1 and not _stands_alone(_words(parts[-1])):
        yield " ".join(parts[-2:])


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml("catalog/model_names.yaml")
    return found


def _listed_base(name: str) -> str | None:
    """The base of a tuned model that is listed by name: the longest that the name begins with."""
    own = store.key(name.rsplit("/", 1)[-1])
    fits = [key for key in _table()["bases"] if own.startswith(store.key(key))]
    return str(_table()["bases"][max(fits, key=len)]) if fits else None


def _words(name: str) -> tuple[str, ...]:
    text = re.sub(r"(?<=\d)_(?=\d)", ".", name.lower())
    return tuple(word for word in _WORD.findall(text) if word not in _SILENT and word not in store.NOISE["models"])


@cache
def _known() -> dict[tuple[str, ...], str]:
    """Words of every name and alias → that name; where a version stands behind the size, without it too."""
    found: dict[tuple[str, ...], str] = {}
    shorter: dict[tuple[str, ...], str] = {}
    for spelling in store.spellings("models"):
        words = _words(spelling.rsplit("/", 1)[-1])
        found.setdefault(words, spelling)
        if len(words) > 2 and _NUMBER.fullmatch(words[-1]) and _SIZE.fullmatch(words[-2]):
            shorter.setdefault(words[:-1], spelling)
    return shorter | found


def _by_words(name: str) -> str | None:
    """The model with the most of its words in a name, in their order; None where other words deny it."""
    words = _words(name)
    fits = [known for known in _known() if (_is_base if _has_size(known) else _is_later)(known, words)]
    return _known()[max(fits, key=len)] if fits else None


def _stands_alone(words: tuple[str, ...]) -> bool:
    """Whether a part of a path says a family and a size."""
    return bool(words) and words[0].isalpha() and _has_size(words)


def _has_size(words: tuple[str, ...]) -> bool:
    return any(_SIZE.fullmatch(word) for word in words)


def _is_later(known: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Whether a name goes on with dates and words for later trainings alone, behind one without a size."""
    behind = words[len(known) :]
    later = _table()["later_trainings"]
    return (
        len(known) > 1
        and words[: len(known)] == known
        and all(word in later or (_NUMBER.fullmatch(word) and len(word) == 4) for word in behind)
    )


def _is_base(known: tuple[str, ...], words: tuple[str, ...]) -> bool:
    at = _places(known, words)
    if at is None:
        return False
    for place, word in enumerate(words):
        if place in at:
            continue
        if word in _table()["other_networks"] or _SIZE.fullmatch(word):
            return False
        if _NUMBER.fullmatch(word) and place - 1 in at and place < at[-1]:  # another generation
            return False
    return True


def _places(known: tuple[str, ...], words: tuple[str, ...]) -> list[int] | None:
    """Where the words of a known name stand in another, in their order; None where one is missing."""
    at: list[int] = []
    for word in known:
        start = at[-1] + 1 if at else 0
        if word not in words[start:]:
            return None
        at.append(words.index(word, start))
    return at


def _own_key(name: str) -> str:
    """A name without its organisation and its format."""
    return store.key(named_format(name)[0].rsplit("/", 1)[-1])


def _unknown(name: str) -> BadInput:
    (problem,) = store.unknown("models", name).problems
    listed = {_own_key(known) for known in _table()["without_configuration"]}
    released = _own_key(name.rstrip("/")) in listed
    what = "is a released model whose configuration is in no public repository" if released else problem.rule
    ways = "--model names one or the checkpoint's config.json (in a scenario: `model: {config: FILE}`)"
    more = "`windtunnel catalog add FILE` keeps it"
    return BadInput(replace(problem, rule=f"{what}; {ways}; {more}", nearest=None if released else problem.nearest))
