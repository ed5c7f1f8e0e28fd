"""What `make release` and `make moved` decide, without building or predicting."""

from __future__ import annotations

import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of the folder of scripts."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])


def test_versions_agree_wherever_they_stand() -> None:
    import release

    from windtunnel import __version__

    assert release.versions() == __version__


def test_addresses_of_the_repository_are_written_where_an_index_shows_them(tmp_path: Path) -> None:
    import release

    (tmp_path / "workshop").mkdir()
    text = '[a](docs/a.md) [b](#b) [c](https://x.example/c) <img src="docs/i.png">\n'
    for folder in (tmp_path, tmp_path / "workshop"):
        (folder / "pyproject.toml").write_text('[project]\nname = "x"\n', "utf-8")
        (folder / "README.md").write_text(text.replace("docs/a.md", "../docs/a.md"), "utf-8")
    release.with_addresses(tmp_path, "https://h.example/r", "1.2")
    project = tomllib.loads((tmp_path / "workshop" / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"]["Changelog"] == "https://h.example/r/blob/v1.2/CHANGELOG.md"
    shown = (tmp_path / "README.md").read_text("utf-8")
    assert "[a](https://h.example/r/blob/v1.2/docs/a.md) [b](#b) [c](https://x.example/c)" in shown
    assert 'src="https://h.example/r/raw/v1.2/docs/i.png"' in shown


@pytest.mark.parametrize(
    ("wheel", "archive", "rule"),
    [
        (("a.py", "b.yaml"), ("a.py", "b.yaml"), ""),
        (("a.py",), ("a.py", "b.yaml"), r"\.whl lacks windtunnel/b\.yaml"),
        (("a.py", "b.yaml", "c.py"), ("a.py", "b.yaml"), r"holds windtunnel/c\.py, which is not tracked"),
        (("a.py", "b.yaml"), ("a.py",), r"\.tar\.gz lacks windtunnel/b\.yaml"),
    ],
)
def test_what_is_built_holds_what_is_tracked(
    tmp_path: Path, wheel: tuple[str, ...], archive: tuple[str, ...], rule: str
) -> None:
    import release

    files = []
    for name, folder in (("windtunnel", "src"), ("windtunnel_lab", "workshop")):
        place = tmp_path / "source" / folder / name
        place.mkdir(parents=True)
        for one in ("a.py", "b.yaml"):
            (place / one).write_text("", "utf-8")
        own = (wheel, archive) if name == "windtunnel" else (("a.py", "b.yaml"), ("a.py", "b.yaml"))
        files += [tmp_path / f"{name}-1.0-py3-none-any.whl", tmp_path / f"{name}-1.0.tar.gz"]
        with zipfile.ZipFile(files[-2], "w") as packed:
            for one in own[0]:
                packed.writestr(f"{name}/{one}", "")
            for one in ("LICENSE", "NOTICE"):
                packed.writestr(f"{name}-1.0.dist-info/licenses/{one}", "")
        with tarfile.open(files[-1], "w:gz") as tar:
            for one in own[1]:
                inside = "src/" if name == "windtunnel" else ""
                tar.add(place / "a.py", arcname=f"{name}-1.0/{inside}{name}/{one}")
    if not rule:
        release.check_contents(files, tmp_path / "source")
        return
    with pytest.raises(release.Failed, match=rule):
        release.check_contents(files, tmp_path / "source")


def _wheel(place: Path) -> Path:
    """A pure wheel of one module."""
    found = place / "windtunnel-1.0-py3-none-any.whl"
    about = "windtunnel-1.0.dist-info/"
    files = {
        "windtunnel/a.py": "x = 1\n",
        about + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        about + "RECORD": f"windtunnel/a.py,sha256=0,6\n{about}WHEEL,sha256=0,9\n{about}RECORD,,\n",
    }
    with zipfile.ZipFile(found, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return found


def _code(place: Path) -> Path:
    folder = place / "code" / "windtunnel-kernels-engine-0123"
    folder.mkdir(parents=True)
    for name in ("k.nbc", "k.compiled", "k.twin_s", "k.nbc.damaged"):
        (folder / name).write_bytes(name.encode())
    return place / "code"


def test_a_wheel_for_one_platform_is_the_pure_one_with_machine_code(tmp_path: Path) -> None:
    import base64
    import hashlib

    import native

    pure = _wheel(tmp_path)
    found = native.native_wheel(pure, _code(tmp_path), "cp311", tmp_path / "out")
    assert found.name == "windtunnel-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    assert "1 functions" in native.check_native(found, pure)
    with zipfile.ZipFile(found) as packed:
        held = {name: packed.read(name) for name in packed.namelist()}
    folder = "windtunnel/machine_code/windtunnel-kernels-engine-0123/"
    assert {n for n in held if n.startswith("windtunnel/machine_code")} == {folder + "k.nbc", folder + "k.compiled"}
    about = held["windtunnel-1.0.dist-info/WHEEL"].decode()
    assert "Root-Is-Purelib: false" in about and "Tag: cp311-cp311-manylinux_2_17_x86_64" in about
    rows = [line.split(",") for line in held["windtunnel-1.0.dist-info/RECORD"].decode().splitlines()]
    assert sorted(row[0] for row in rows) == sorted(held)
    for name, digest, size in rows:
        if name.startswith(("windtunnel/machine_code", "windtunnel-1.0.dist-info/WHEEL")):
            whole = base64.urlsafe_b64encode(hashlib.sha256(held[name]).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={whole}", str(len(held[name])))


def test_a_wheel_for_one_platform_that_holds_anything_else_is_refused(tmp_path: Path) -> None:
    import native

    pure = _wheel(tmp_path)
    found = native.native_wheel(pure, _code(tmp_path), "cp311", tmp_path / "out")
    with zipfile.ZipFile(found, "a") as packed:
        packed.writestr("windtunnel/other.py", "")
    with pytest.raises(native.Failed, match=r"differs from .*: windtunnel/other\.py"):
        native.check_native(found, pure)
    (tmp_path / "none").mkdir()
    empty = native.native_wheel(pure, tmp_path / "none", "cp311", tmp_path / "out")
    with pytest.raises(native.Failed, match="holds no machine code"):
        native.check_native(empty, pure)


def test_moved_names_the_figures_that_a_command_is_known_by_first() -> None:
    import moved

    was: dict[str, Any] = {"step_time_s": 2.0, "breakdown": {"gemm": 1.0, "host": 1.0}, "simulated_in_s": 1.0}
    now: dict[str, Any] = {"step_time_s": 2.5, "breakdown": {"gemm": 1.5, "host": 1.0}, "simulated_in_s": 9.0}
    assert moved.moved("train", was, now) == [("step_time_s", 2.0, 2.5)]
    assert moved.moved("train", was | {"step_time_s": 2.5}, now) == [("breakdown.gemm", 1.0, 1.5)]
    assert moved.moved("train", was, was | {"simulated_in_s": 3.0, "step_time_s": 2.0 + 1e-9}) == []
    assert moved.row("a.yaml", "step_time_s", 2.0, 2.5) == "| a.yaml | step_time_s | 2 | 2.5 | +25 % |"


def test_every_kind_of_example_has_a_command() -> None:
    import moved

    found = dict((name, command) for command, name in moved.examples(""))
    assert found["examples/llama3-70b-64xh100.yaml"] == "train"
    assert found["examples/llama3-70b-run.yaml"] == "run"
    assert set(found.values()) == set(moved.FIGURES)
