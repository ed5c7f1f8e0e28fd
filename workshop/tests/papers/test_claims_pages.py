"""Pages that speak of registries: nothing missing, nothing that is gone, levels and claims as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from windtunnel.registry import Registry
from windtunnel.serving.admission import ADMISSION
from windtunnel.serving.batching import POLICIES
from windtunnel.serving.queues import QUEUES
from windtunnel.serving.routers import ROUTERS
from windtunnel.serving.speculation.base import METHODS
from windtunnel.serving.speculation.orders.base import ORDERS
from windtunnel.techniques import REGISTRY
from windtunnel_lab.reproduce import ACTS_ON, ClaimResult, folders
from windtunnel_lab.reproduce.claim_tables import band
from windtunnel_lab.reproduce.pages.claims_page import page
from windtunnel_lab.reproduce.settings import load

DOCS = Path(__file__).parents[3] / "docs"
DEFAULTS = {"all"}
"""Nobody writes it: every request is admitted."""
SERVING = sorted(path.name for path in (DOCS / "serving").glob("*.md") if path.name != "overview.md")


def test_the_tables_of_techniques_are_the_registry() -> None:
    text = (DOCS / "techniques/overview.md").read_text("utf-8").split("## How one acts")[0]
    rows = re.findall(r"^\| ((?:`[\w-]+`(?:, )?)+) \| ([\w, ]+) \|", text, flags=re.M)
    told = {one: levels for ids, levels in rows for one in re.findall(r"`([\w-]+)`", ids)}
    assert told == {one: ", ".join(technique.levels) or technique.kind for one, technique in REGISTRY.items()}


@pytest.mark.parametrize("name", SERVING)
def test_the_page_on_serving_names_its_sisters(name: str) -> None:
    start = (DOCS / "serving/overview.md").read_text("utf-8").split("\n## ")[0]
    assert f"]({name})" in start


def test_links_between_pages_lead_somewhere() -> None:
    dead = []
    for path in [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "benchmarks/README.md"]:
        for link in re.findall(r"\]\(\s*([^)#\s]+)[^)]*\)", path.read_text("utf-8")):
            if "://" not in link and not (path.parent / link).exists():
                dead.append(f"{path.relative_to(DOCS.parent)}: {link}")
    assert not dead


def claims_of(text: str) -> set[str]:
    """Keys of the claims of a section."""
    return set(re.findall(r"^\| `([^`]+)`(?: \(tier [AB]\))?:", text, flags=re.M))


@pytest.mark.slow
def test_the_pages_of_claims_have_all_claims_of_their_papers() -> None:
    shown: dict[str, set[str]] = {}
    for acts_on in ACTS_ON:
        path = DOCS / f"generated/{acts_on}_papers.md"
        if all(load(f"windtunnel_lab.papers.{folder}")["acts_on"] != acts_on for folder in folders()):
            assert not path.exists()
            continue
        text = path.read_text("utf-8")
        own = {re.findall(r"`papers/(\w+)`", part)[0]: claims_of(part) for part in text.split("\n## ")[1:]}
        assert list(own) == folders(acts_on=acts_on)
        shown |= own
    for folder, keys in shown.items():
        stated = load(f"windtunnel_lab.papers.{folder}").get("claims", {})
        judged = {key for key, entry in stated.items() if isinstance(entry, dict) and "published" in entry}
        assert keys and judged <= keys, folder


def test_a_page_of_claims_says_band_and_reason() -> None:
    setting = load("windtunnel_lab.papers.dsi")
    hit = ClaimResult(
        id="dsi/never-slower", claim="at most | 1", published=1.0, simulated=1.0, low=0.9, high=1.0, within=True
    )
    miss = ClaimResult(
        id="dsi/smallest",
        claim="smallest",
        published=1.29,
        simulated=2.0,
        low=1.9,
        high=2.1,
        within=False,
        assumptions=("missing: old words",),
    )
    text = page([hit, miss], "serving")
    assert "**1 of 2 claims of 1 papers" in text
    assert "0 of 1 tier-A claims" in text and "0 of 0 tier-B claims" in text
    assert "`smallest` (tier A):" in text
    assert "at most \\| 1 | 1 | 1 | 0.9 to 1 | ≤ 1 | within by construction |" in text
    assert "| 1.1 to 1.48 | **miss** |" in text
    assert " ".join(setting["claims"]["smallest"]["missing"].split()).rstrip(".") in text and "old words" not in text


def test_bands_are_written_in_the_units_of_the_claim() -> None:
    assert band({"at_least": 0.29, "at_most": 0.78}, 0.5) == "≥ 0.29, ≤ 0.78"
    assert band({"absolute": 4.0}, 10.0) == "6 to 14"


@pytest.mark.parametrize("registry", [POLICIES, QUEUES, ROUTERS, ADMISSION, METHODS, ORDERS], ids=lambda r: r.kind)
def test_every_rule_that_a_scenario_can_name_stands_on_a_page(registry: Registry[Any]) -> None:
    text = "".join(path.read_text("utf-8") for path in (DOCS / "serving").glob("*.md"))
    assert not [name for name, _ in registry.items() if f"`{name}`" not in text and name not in DEFAULTS]


def test_files_named_on_pages_of_serving_are_there() -> None:
    root = DOCS.parent
    bases = (root, root / "tests", root / "src/windtunnel", root / "src/windtunnel/serving", root / "workshop")
    gone = []
    pages = ("development/architecture.md", "development/contracts.md", "techniques/overview.md")
    for path in [*(DOCS / "serving").glob("*.md"), *(DOCS / "guide").glob("*.md"), *(DOCS / name for name in pages)]:
        for name in re.findall(r"`([a-z_/]+/[a-z_]+\.py|examples/[^` ]+\.yaml)`", path.read_text("utf-8")):
            if not any((base / name).exists() for base in bases):
                gone.append(f"{path.name}: {name}")
    assert not gone
