"""Cards of published systems: complete, referred to, and the only place of a paper's title."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from windtunnel.laws import LAWS
from windtunnel.learning.algorithms import ALGORITHMS
from windtunnel.systems import card, ids
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import LEVELS, WORK, Paper, Technique
from windtunnel.techniques.systems import FAMILIES
from windtunnel_lab.reproduce import list_papers
from windtunnel_lab.reproduce.settings import load

ROOT = Path(__file__).parents[3]
READ = (".py", ".yaml", ".json", ".md", ".js", ".html")


def flat(path: Path) -> str:
    return " ".join(path.read_text("utf-8").split())


def written(id: str) -> str:
    """The title as its card writes it: YAML doubles an apostrophe inside quotes."""
    title = card(id).title
    return title if f"title: {title}" in flat(ROOT / f"src/windtunnel/systems/{id}.yaml") else title.replace("'", "''")


def test_a_title_stands_once() -> None:
    folders = (ROOT / "src", ROOT / "workshop")
    text = "\n".join(flat(path) for folder in folders for path in folder.rglob("*") if path.suffix in READ)
    titles = [card(id).title for id in ids()]
    counted = {id: text.count(written(id)) for id in ids()}
    within_others = {id: sum(card(id).title in one and one != card(id).title for one in titles) for id in ids()}
    assert not {id: n for id, n in counted.items() if n - within_others[id] != 1}


@pytest.mark.parametrize("id", ids())
def test_a_card_is_whole_and_what_it_names_is_there(id: str) -> None:
    one = card(id)
    assert one.title and set(one.levels) <= set(LEVELS) and set(one.about) <= set(WORK)
    assert not one.tier or one.family in FAMILIES
    known = {"law": LAWS, "algorithm": ALGORITHMS}
    for became in one.became:
        assert set(became) == {"kind", "id"}
        if became["kind"] in known:
            assert {became["id"], became["id"].replace("-", "_")} & set(known[became["kind"]].list())
        else:
            assert REGISTRY.get(became["id"]).kind == became["kind"]
    assert set(one.claims) <= set(list_papers())
    assert not one.claims or (one.year and one.link)


def test_every_technique_and_every_paper_has_one_card() -> None:
    became = Counter(x["id"] for id in ids() for x in card(id).became if x["kind"] not in ("law", "algorithm"))
    assert became == Counter(REGISTRY.list())
    claims = Counter(paper for id in ids() for paper in card(id).claims)
    assert claims == Counter(list_papers())
    for paper in list_papers():
        assert paper in card(load(f"windtunnel_lab.papers.{paper}")["system"]).claims


def test_facts_come_from_the_card_and_an_unknown_one_is_refused() -> None:
    zb, own = REGISTRY.get("zb-h1"), card("zero-bubble")
    assert zb.paper == own.paper and zb.summary != own.summary and zb.paper.title
    vmr2l = REGISTRY.get("vmr2l")
    assert (vmr2l.kind, vmr2l.missing, vmr2l.experiment) == ("search", card("vmr2l").limits, "vmr2l")
    with pytest.raises(KeyError, match="no card of a published system has the id nobody"):
        Technique(id="nobody")
    stated = Technique(id="nobody", family="f", summary="s", paper=Paper("t", 2020, "l"), levels=("plan",))
    assert (stated.family, stated.paper.title, stated.status) == ("f", "t", "works")


def test_a_card_of_the_catalogue_is_named_by_its_title_where_it_states_no_name() -> None:
    unnamed = [card(id) for id in ids() if card(id).tier and card(id).name == card(id).title]
    assert unnamed and all(one.name for one in map(card, ids()) if one.tier)
    assert all(not one.name for one in map(card, ids()) if not one.tier)
