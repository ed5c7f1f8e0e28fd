"""Published systems: one card each, `<id>.yaml`; everything else refers to it.

A card holds the paper (`title`, `year`, `link`, `authors`, `venue`), the `family` and a `summary`, the `levels` at
which it acts, what it `became` here (kind and id), its `claims` (folders of papers in the workshop), the `setting` in
which they hold, and its `limits`: what is left out. Cards of the research catalogue also have a `name` and a `tier` (A:
a numeric test with a known setting, B: a number whose setting is open, C: no number).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from windtunnel.data_files import read_yaml


@dataclass(frozen=True, slots=True)
class Paper:
    """Where a system was published."""

    title: str
    year: int
    link: str
    authors: str = ""
    venue: str = ""

    def line(self) -> str:
        """One line for lists of methods used."""
        return f"{self.title} ({self.year}) {self.link}"

    def bibtex(self, key: str) -> str:
        """A BibTeX entry."""
        venue = f"  journal = {{{self.venue}}},\n" if self.venue else ""
        return (
            f"@article{{{key},\n  title = {{{self.title}}},\n  author = {{{self.authors}}},\n{venue}"
            f"  year = {{{self.year}}},\n  url = {{{self.link}}}\n}}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One published system."""

    id: str
    title: str
    year: int = 0
    """0: not known."""
    link: str = ""
    authors: str = ""
    venue: str = ""
    name: str = ""
    """Name in the research catalogue, absent: the title; empty where the catalogue does not have it."""
    tier: str = ""
    family: str = ""
    summary: str = ""
    became: tuple[dict[str, str], ...] = ()
    """What it is here: `kind` (technique, search, predictor, meter, law, algorithm) and `id`."""
    levels: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    """What a search, a predictor or a meter is about."""
    use: str = ""
    """How a search, a predictor or a meter is run."""
    status: str = ""
    claims: tuple[str, ...] = ()
    setting: str = ""
    limits: str = ""

    @property
    def paper(self) -> Paper:
        """Its paper."""
        return Paper(self.title, self.year, self.link, self.authors, self.venue)

    @property
    def kind(self) -> str:
        """Kind of the entry of its own id; empty where it became none."""
        return next((one["kind"] for one in self.became if one["id"] == self.id), "")


_TUPLES = ("became", "levels", "about", "claims")


@lru_cache(maxsize=512)
def card(id: str) -> Card:
    """The card of an id.

    Raises:
        KeyError: there is none.
    """
    try:
        data: dict[str, Any] = read_yaml(f"systems/{id}.yaml")
    except FileNotFoundError:
        raise KeyError(f"no card of a published system has the id {id}") from None
    if "tier" in data:
        data.setdefault("name", data["title"])
    return Card(id=id, **data | {name: tuple(data[name]) for name in _TUPLES if name in data})


@lru_cache(maxsize=1)
def ids() -> tuple[str, ...]:
    """Ids of all cards, sorted."""
    names = (entry.name for entry in files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))
