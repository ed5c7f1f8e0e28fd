"""What lies in the folder of a studio, and what its list says of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from windtunnel.errors import BadInput
from windtunnel.studio.files import MOST_BYTES, MOST_WORDS, Files


def test_scenarios_are_listed_with_what_they_ask(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# How long is a step?\nmodel: meta-llama/Llama-3.1-8B\ncluster: {device: x}\n")
    (tmp_path / "b.yaml").write_text("name: a server\nmodel: m\ncluster: {}\nserving: {}\n")
    (tmp_path / "c.yaml").write_text(f"# {'word ' * 60}\nmodel: m\ncluster: {{}}\nprograms: {{}}\nrun: {{}}\n")
    (tmp_path / "other.yaml").write_text("services: {}\n")
    (tmp_path / "big.yaml").write_text("model: m\ncluster: {}\n" + "#" * MOST_BYTES)
    of_init = "# yaml-language-server: $schema=x\n# A scenario. Predict it with:  windtunnel train d.yaml\n\nmodel: m\n"
    (tmp_path / "d.yaml").write_text(of_init + "cluster: {device: h100, nodes: 2}\nplan: {tp: 4, pp: 1}\n")
    found = {one["path"]: one for one in Files(tmp_path).listed()["scenarios"]}
    assert sorted(found) == ["a.yaml", "b.yaml", "c.yaml", "d.yaml"]
    assert found["d.yaml"]["about"] == "2 × h100 · tp 4 · pp 1"
    assert (found["a.yaml"]["verb"], found["a.yaml"]["model"]) == ("train", "meta-llama/Llama-3.1-8B")
    assert found["a.yaml"]["about"] == "How long is a step?"
    assert (found["b.yaml"]["verb"], found["b.yaml"]["about"]) == ("serve", "a server")
    assert found["c.yaml"]["verb"] == "reason" and len(found["c.yaml"]["about"]) <= MOST_WORDS + 2


def test_ids_stay_below_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.yaml").write_text("model: m\ncluster: {}\n")
    files = Files(root)
    (entry,) = files.listed()["scenarios"]
    assert files.path(entry["id"]) == root / "a.yaml"
    (root / "a.yaml").unlink()
    (tmp_path / "secret.yaml").write_text("model: m\ncluster: {}\n")
    (root / "a.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(BadInput, match="no such file"):
        files.path(entry["id"])


def test_a_name_that_is_no_utf8_is_listed_as_the_others_are(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/inner\xff"
    try:
        os.mkdir(folder)
    except OSError:
        pytest.skip("this file system has names in UTF-8 alone")
    for place in (os.fsencode(tmp_path), folder):
        (Path(os.fsdecode(place)) / os.fsdecode(b"x\xfe.yaml")).write_text("model: x\ncluster: y\n")
    files = Files(tmp_path)
    listed = files.listed()["scenarios"]
    json.dumps(listed, ensure_ascii=False).encode()
    assert len({files.path(one["id"]) for one in listed}) == 2
    assert all(files.path(one["id"]).read_text() for one in listed)
