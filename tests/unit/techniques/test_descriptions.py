"""What lists, searches and bibliographies say of techniques; a technique of another installed package."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from windtunnel import api
from windtunnel.cli.main import run as cli
from windtunnel.techniques import REGISTRY
from windtunnel.techniques.base import Knob
from windtunnel.techniques.described import allowed, bibtex, conflicting, default, matches, mechanism, record
from windtunnel.techniques.systems import systems
from windtunnel_lab.reproduce.pages.technique_pages import FAMILIES

ROOT = Path(__file__).parents[3]
CASE = {
    "model": "meta-llama/Llama-3.1-8B",
    "cluster": {"device": "h100-sxm-80gb", "nodes": 1, "devices_per_node": 8},
    "training": {"seq_len": 8192, "global_batch": 16, "framework": "nemo"},
    "plan": {"tp": 4, "pp": 2, "mbs": 1, "schedule": "zb_h1"},
}


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert cli(["techniques", *arguments, "--json"]) == 0
    return [one["id"] for one in json.loads(capsys.readouterr().out)]


def test_lists_are_filtered_by_what_techniques_declare(capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(capsys, "list") == list(REGISTRY.list())
    served = listed(capsys, "list", "--acts-on", "serving", "--status", "works")
    assert served == [id for id, t in REGISTRY.items() if "serving" in t.scopes and t.status == "works"]
    assert "zb-h1" in listed(capsys, "list", "--relieves", "bubble", "--family", "train-parallel")
    assert all("graph" in REGISTRY.get(id).levels for id in listed(capsys, "list", "--level", "graph"))


def test_filters_that_nothing_has_are_named_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["techniques", "list", "--family", "train-paralel", "--level", "grpah", "--acts-on", "x"]) == 2
    text = capsys.readouterr().err
    assert "did you mean 'train-parallel'" in text and "did you mean 'graph'" in text
    assert text.count("must be one of") == 3


def test_words_are_found_in_mechanism_authors_knobs_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert "pytorch-ddp" in listed(capsys, "search", "bucket_mb")
    assert {"zb-v"} <= set(listed(capsys, "search", "ZBVZeroBubble")) < set(REGISTRY.list())
    assert "megatron-3d" in listed(capsys, "search", "shoeybi", "BUBBLE")
    assert listed(capsys, "search", "no-such-word-anywhere") == []
    assert matches({"a": {"b": ["Deep"]}}, ["deep", "b"]) and not matches({"a": 1}, ["b"])


def test_one_is_shown_with_its_conflicts_and_mechanism(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["techniques", "show", "zb_h1"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "What it costs: backward is split" in text
    assert re.search(r"conflicts breadth-first, [\w, -]+: both edit order at level schedule", text)
    assert conflicting(REGISTRY.get("zb-h1"))["zb-v"] == "both edit order at level schedule"


def test_every_technique_has_a_mechanism_and_plain_data() -> None:
    for id, one in REGISTRY.items():
        assert len(mechanism(one)) > 60, f"{id}: the head of its file says too little"
        assert one.quality or "quality" not in mechanism(one), f"{id}: its head speaks of quality, its entry does not"
        json.dumps(record(one))


def test_knobs_in_words() -> None:
    assert [allowed(k) for k in (Knob(1, 1, 8), Knob(1, 1), Knob(1, None, 8), Knob(True), Knob("a"))] == [
        "1 to 8",
        "1 or more",
        "8 or less",
        "true, false",
        "",
    ]
    assert [default(k) for k in (Knob(None, 0), Knob(False), Knob(2.5))] == ["absent", "false", "2.5"]


def test_references_are_one_entry_a_paper(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = bibtex(["zb-h1", "zb-h2", "zb-v", "gone"])
    assert text.count("@article{zb-h1,") == text.count("@") == 1
    assert cli(["techniques", "cite", "zb-h1", "zb-h2", "--text"]) == 0
    assert capsys.readouterr().out == REGISTRY.get("zb-h1").paper.line() + "\n"
    assert cli(["techniques", "cite", "zb-h1", "--output", str(tmp_path / "a.bib")]) == 0
    assert "@article{zb-h1," in (tmp_path / "a.bib").read_text("utf-8")


def test_a_run_cites_what_it_used_named_or_not(tmp_path: Path) -> None:
    """The framework overlaps tensor-parallel traffic, the plan names a schedule; the technique is named."""
    result = api.simulate_training(CASE | {"techniques": ["pytorch-ddp"]}, sensitivities=False)
    assert set(result.techniques) == {"pytorch-ddp", "tp-overlap"}
    assert "schedule zb_h1: Qi et al. 2023" in result.citations[-1]
    (tmp_path / "a.json").write_text(json.dumps(CASE | {"techniques": ["pytorch-ddp"]}))
    assert cli(["train", str(tmp_path / "a.json"), "--json", "--cite", str(tmp_path / "out.bib")]) == 0
    text = (tmp_path / "out.bib").read_text("utf-8")
    assert text.count("@article") == 2 and text.count("@misc") == 1
    assert "https://arxiv.org/abs/2401.10241}" in text and text.count("{") == text.count("}")
    named = api.simulate_training(CASE | {"techniques": ["zb-h1"]}, sensitivities=False)
    assert not any("schedule zb_h1" in line for line in named.citations)


def test_a_technique_of_another_package_is_found_once_it_is_installed(tmp_path: Path) -> None:
    """The example of docs/techniques/overview.md as files of an installed distribution, in a process of its own."""
    text = (ROOT / "docs" / "techniques" / "overview.md").read_text("utf-8")
    code = next(b for b in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "def fuse(" in b)
    point = next(b for b in re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL) if "windtunnel.techniques" in b)
    ((id, target),) = re.findall(r"^([\w-]+) = \"([\w.:]+)\"", point, flags=re.M)
    package, _, module = target.partition(":")[0].partition(".")
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    (tmp_path / package / f"{module}.py").write_text(code)
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[windtunnel.techniques]\n{id} = {target}\n")
    (tmp_path / "case.json").write_text(json.dumps(CASE | {"techniques": [{id: {"saved": 0.5}}]}))
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])

    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "windtunnel.cli.main", *arguments],
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )

    shown = asked("techniques", "show", id, "--json")
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    assert found["family"] == "kernels" and found["knobs"]["saved"]["high"] == 0.9
    assert found["mechanism"].startswith("Norms and residuals in one kernel")
    ran = json.loads(asked("train", str(tmp_path / "case.json"), "--json").stdout)
    assert id in ran["techniques"]
    assert ran["step_time_s"] < api.simulate_training(CASE, sensitivities=False).step_time_s


def test_systems_that_are_not_built_yet_are_those_of_the_catalogue_that_nothing_here_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    every = {one.id: one for one in systems()}
    assert len(every) == len(systems()) == 230
    assert {one.family for one in systems()} == set(FAMILIES) and {one.tier for one in systems()} == set("ABC")
    waiting = listed(capsys, "list", "--planned")
    assert waiting and not set(waiting) & set(REGISTRY.list()) and set(waiting) <= set(every)
    assert set(listed(capsys, "list", "--planned", "--family", "serving")) == {
        id for id in waiting if every[id].family == "serving"
    }
    assert not [id for id in waiting if every[id].family in ("agents", "decode-tts")]
    assert "lattica" in listed(capsys, "search", "--planned", "NAT", "mesh")
    assert "zb-h1" not in listed(capsys, "list", "--planned") and "zero-bubble" not in waiting
    assert cli(["techniques", "list", "--planned", "--family", "diffusion"]) == 0
    assert "what it does" in capsys.readouterr().out
