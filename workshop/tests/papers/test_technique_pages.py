"""Pages of families: every technique of the registry is there with what it declares; gain maps are sound."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from windtunnel.techniques import REGISTRY
from windtunnel.techniques.limits import merged, with_technique
from windtunnel_lab.reproduce.pages import gain_maps
from windtunnel_lab.reproduce.pages import technique_pages as family_pages
from windtunnel_lab.reproduce.pages.gain_maps import BANDWIDTHS, BATCHES, GainMap, batched, gain_map, told
from windtunnel_lab.reproduce.pages.technique_pages import FAMILIES, claims_of, families, helps, page, section

ROOT = Path(__file__).parents[3]
PAGES = ROOT / family_pages.FOLDER
FRESH = "run `make technique-pages`"
GAINS = ((1.0, None), (0.05, -0.5))
MAP = GainMap(
    measure="step_time_s",
    larger=False,
    bandwidth="scale-up bandwidth",
    batch="global batch",
    bandwidths=(0.25, 1.0),
    batches=(1.0, 2.0),
    gains=GAINS,
    scenario="a case",
)


def test_families_are_those_of_the_catalogue() -> None:
    assert {t.family for _, t in REGISTRY.items()} <= set(FAMILIES)


def test_every_technique_stands_on_the_page_of_its_family() -> None:
    for family, own in families().items():
        text = (PAGES / f"{family}.md").read_text("utf-8")
        assert re.findall(r"^## ([\w-]+)$", text, flags=re.M) == [t.id for t in own], f"{family}: {FRESH}"
    assert {p.stem for p in PAGES.glob("*.md")} == {*families(), "README"}, FRESH
    index = (PAGES / "README.md").read_text("utf-8")
    assert set(re.findall(r"\[`([\w-]+)`\]", index)) == set(REGISTRY.list()), FRESH


def test_maps_are_stored_for_techniques_that_there_are() -> None:
    stored = gain_maps.read(ROOT / gain_maps.STORE)
    declared = {id for id, t in REGISTRY.items() if t.limit_cases is not None}
    assert set(stored) <= declared and len(stored) > 0.8 * len(declared), FRESH
    for id, one in stored.items():
        assert len(one.gains) == len(BANDWIDTHS) and all(len(row) == len(BATCHES) for row in one.gains), id
        middle = one.gains[BANDWIDTHS.index(1.0)][BATCHES.index(1.0)]
        assert middle is not None and middle > 0, f"{id} does not gain in its own case: {FRESH}"


def test_a_section_says_what_a_technique_declares() -> None:
    text = section(REGISTRY.get("tp-overlap"), MAP, "Claims: none.")
    assert text.startswith("## tp-overlap\n") and "https://doi.org/10.1145/3567955.3567959" in text
    assert "| `method` | ring | ring, userbuffers, chunked |" in text
    assert "* Quality: results stay what they were." in text
    assert "torchtitan `compile.enable_async_tensor_parallel`" in text
    assert "What it costs: each GEMM piece pays" in text and text.rstrip().endswith("Claims: none.")
    assert "Conflicts with" in section(REGISTRY.get("zb-h1"), None, "")


def test_a_map_is_shown_as_changes_of_the_figure() -> None:
    text = helps(MAP)
    assert "| × 0.25 | −50 % | – |" in text and "| × 1 | −4.8 % | +100 % |" in text
    assert "(less is better)" in text
    assert family_pages._percent(1.0, larger=True) == "+100 %"
    assert family_pages._percent(1e-9, larger=False) == "0 %"


def test_a_map_is_simulated_in_the_scenario_of_the_limit_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gain_maps, "BANDWIDTHS", (1.0, 4.0))
    monkeypatch.setattr(gain_maps, "BATCHES", (0.5, 1.0))
    one = REGISTRY.get("tp-overlap")
    found = gain_map(one)
    assert found is not None and one.limit_cases is not None
    own = one.limit_cases.scenario
    before, after = (gain_maps._train(merged(x, {})) for x in (own, with_technique(own, one.id)))
    assert found.gains[0][1] == pytest.approx(one.limit_cases.gain(before, after))
    assert found.gains[0][0] is None  # half of two sequences are less than a micro-batch of two
    assert found.gains[1][1] is not None and found.gains[1][1] < 0.5 * float(found.gains[0][1] or 0)
    assert found.bandwidth == "scale-up bandwidth"


def test_batches_scale_what_a_scenario_states() -> None:
    training = {"training": {"seq_len": 8, "global_batch": 6}}
    assert batched(training, 0.5) == {"training": {"seq_len": 8, "global_batch": 3}}
    assert batched(training, 0.25) is None
    serving: dict[str, Any] = {"serving": {"traffic": {"rate_per_s": 3.0, "num_requests": 10}}}
    assert (batched(serving, 2) or {})["serving"]["traffic"] == {"rate_per_s": 6.0, "num_requests": 10}
    serving = {"serving": {"traffic": {"offline": True, "num_requests": 5}}}
    assert (batched(serving, 0.5) or {})["serving"]["traffic"]["num_requests"] == 2


def test_scenarios_in_a_line() -> None:
    scenario = {"model": "m", "cluster": {"device": "d", "nodes": 2}, "training": {"seq_len": 1, "global_batch": 2}}
    assert told(scenario | {"plan": {"tp": 2}}) == "m on 16 × d, tp 2, 1 tokens, batch 2"


def test_stored_maps_come_back_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gain_maps, "BANDWIDTHS", (1.0,))
    monkeypatch.setattr(gain_maps, "BATCHES", (1.0,))
    store = tmp_path / "gains.json"
    data = gain_maps.one("zero")[1]
    assert data is not None
    store.write_text(json.dumps({"zero": data}))
    assert gain_maps.read(store)["zero"] == gain_map(REGISTRY.get("zero"))
    assert gain_maps.read(tmp_path / "none.json") == {}


def test_claims_of_the_catalogue_come_first_and_few(tmp_path: Path) -> None:
    rows = [f"| `{i}`: text | 1 | 1 | 1 to 1 | | within |" for i in range(9)]
    rows.append("| `a` (tier A): x | 1 | 2 | | | **miss** |")
    (tmp_path / "p.md").write_text("# T\n\n## P (2024)\n\n`papers/dsi`, <l>; 9 of 10 within.\n\n" + "\n".join(rows))
    text = claims_of([tmp_path / "p.md"])["dsi"]
    assert "`a` (tier A)" in text and text.count("| `") == family_pages.MOST_CLAIMS
    assert "9 of 10 within; the first 8 of them" in text and "(../p.md)" in text


def test_a_page_has_all_of_a_family() -> None:
    own = families()["train-parallel"]
    text = page("train-parallel", own, {}, {})
    assert all(f"[`{t.id}`](#{t.id})" in text and f"\n## {t.id}\n" in text for t in own)
