"""What a scope lets through: files by their kind and place, never by what a text looks like."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from windtunnel.errors import BadInput
from windtunnel.files import reading, trust
from windtunnel.files.scope import Scope, below, confine, confined, current
from windtunnel.files.writing import place_to_write, write_text

SECRET = "a text that nobody outside may see"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder beside a secret, with links to it, a pipe and a file of its own."""
    (tmp_path / "secret.yaml").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.yaml").write_text(SECRET)
    place = tmp_path / "root"
    place.mkdir()
    (place / "own.yaml").write_text("model: x\n")
    (place / "inner").mkdir()
    (place / "inner" / "a.yaml").write_text("a: 1\n")
    (place / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    (place / "folder").symlink_to(tmp_path / "outside")
    (place / "inside.yaml").symlink_to(place / "own.yaml")
    os.mkfifo(place / "pipe.yaml")
    return place


OUTSIDE = [
    "../secret.yaml",
    "link.yaml",
    "folder/x.yaml",
    "inside.yaml",
    "/etc/hostname",
    "/dev/zero",
    "inner/../../secret.yaml",
    "./" * 2500 + "../secret.yaml",
    "missing.yaml",
    "../missing.yaml",
    "inner",
    ".",
    "",
    "a\0b",
    "x" * 5000,
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_lies_outside_is_refused_in_one_line_that_says_nothing_of_it(root: Path, name: str) -> None:
    with confined(Scope.of(root)), pytest.raises(BadInput) as refused:
        reading.read_text(root / name if "\0" not in name else f"{root}/{name}", "model.config")
    (problem,) = refused.value.problems
    assert SECRET not in str(problem) and "\n" not in str(problem)
    rules = ("must lie below the folder of --root", "Is a directory")
    assert any(rule in problem.rule for rule in rules)


def test_a_missing_file_outside_reads_like_one_that_is_there(root: Path) -> None:
    rules = set()
    for name in ("../secret.yaml", "../missing.yaml", "missing.yaml", "link.yaml"):
        with confined(Scope.of(root)), pytest.raises(BadInput) as refused:
            reading.read_text(root / name, "f")
        rules.add(refused.value.problems[0].rule)
        with confined(Scope.of(root)):
            assert not reading.is_file(root / name)
    assert len(rules) == 1


@pytest.mark.parametrize("scoped", [False, True])
def test_pipes_and_devices_are_no_files(root: Path, scoped: bool) -> None:
    if scoped:
        with confined(Scope.of(root)), pytest.raises(BadInput, match="regular file"):
            reading.read_text(root / "pipe.yaml")
        return
    for place in (root / "pipe.yaml", Path("/dev/zero")):
        with pytest.raises(BadInput, match="regular file"):
            reading.read_text(place)


def test_files_below_the_root_are_read_and_their_size_is_looked_at_first(root: Path) -> None:
    with confined(Scope.of(root)):
        assert reading.read_text(root / "own.yaml") == "model: x\n"
        assert reading.read_text(root / "inner" / ".." / "inner" / "a.yaml") == "a: 1\n"
        assert reading.is_file(root / "inner" / "a.yaml")
        with (root / "large.json").open("wb") as stream:
            stream.truncate(1 << 40)
        with pytest.raises(BadInput, match="at most 1000 bytes"):
            reading.read_text(root / "large.json", most_bytes=1000)
    assert reading.read_bytes(root / "own.yaml", most_bytes=9) == b"model: x\n"
    with pytest.raises(BadInput, match="at most 8 bytes"):
        reading.read_bytes(root / "own.yaml", most_bytes=8)


def test_nothing_is_read_without_a_root() -> None:
    with confined(Scope.of(None)), pytest.raises(BadInput, match="start with --root FOLDER"):
        reading.read_text("/etc/hostname")


def test_a_scope_reaches_processes_through_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope.of(root, may_write=True, code="any")
    monkeypatch.setenv("WINDTUNNEL_SCOPE", scope.text())
    assert current() == scope
    assert scope.environment()["PYTHONSAFEPATH"] == "1"
    monkeypatch.setenv("WINDTUNNEL_SCOPE", "{}")
    with pytest.raises(BadInput, match="must be a scope"):
        current()


def test_a_neighbour_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    assert below(tmp_path / "root2" / "x", (tmp_path / "root",)) is None
    assert below(tmp_path / "root" / "x", (tmp_path / "root",)) == (tmp_path / "root", ("x",))


# -- writing


@pytest.mark.parametrize("name", ["../new.yaml", "link.yaml", "folder/new.yaml", "/tmp/new.yaml"])
def test_nothing_is_written_outside_or_through_a_link(root: Path, name: str) -> None:
    with confined(Scope.of(root, may_write=True)), pytest.raises(BadInput, match="must lie below"):
        write_text(root / name, "x", "folder")
    assert (root.parent / "secret.yaml").read_text() == SECRET
    with confined(Scope.of(root)), pytest.raises(BadInput, match="--allow-write"):
        place_to_write(root / "new", "folder")


def test_a_folder_that_becomes_a_link_meanwhile_is_not_written_through(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from windtunnel.files import writing

    found = writing.place_to_write

    def raced(path: Path, field: str) -> Path:
        place = found(path, field)
        (root / "inner" / "a.yaml").unlink()
        (root / "inner").rmdir()
        (root / "inner").symlink_to(root.parent / "outside")
        return place

    monkeypatch.setattr(writing, "place_to_write", raced)
    with confined(Scope.of(root, may_write=True)), pytest.raises(BadInput, match="cannot be written"):
        write_text(root / "inner" / "new.yaml", "x")
    assert os.listdir(root.parent / "outside") == ["x.yaml"]


def test_a_planted_link_beside_the_file_is_not_followed(root: Path) -> None:
    (root / ".own.yaml.windtunnel.tmp").symlink_to(root.parent / "secret.yaml")
    with confined(Scope.of(root, may_write=True)):
        write_text(root / "own.yaml", "new: 1\n")
    assert (root / "own.yaml").read_text() == "new: 1\n"
    assert (root.parent / "secret.yaml").read_text() == SECRET


def test_a_file_that_cannot_be_written_leaves_the_older_one(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "own.yaml").chmod(0o640)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match="No space left on device"):
        write_text(root / "own.yaml", "new: 1\n")
    assert (root / "own.yaml").read_text() == "model: x\n"
    assert not [name for name in os.listdir(root) if name.endswith(".tmp")]
    monkeypatch.undo()
    write_text(root / "own.yaml", "new: 1\n")
    assert (root / "own.yaml").stat().st_mode & 0o777 == 0o640


# -- Python files


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A Python file, and a configuration folder that trusts nothing."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("WINDTUNNEL_TRUST", raising=False)
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "helper_of_x.py").write_text("VALUE = 3\n")
    (folder / "x.py").write_text("import helper_of_x\nANSWER = helper_of_x.VALUE\n")
    return folder / "x.py"


def ran(path: Path) -> object:
    """What the file computes."""
    import sys

    sys.modules.pop("helper_of_x", None)
    return trust.run_python(path, "learning.task.torch-module.file", "x_of_test").ANSWER


def test_a_python_file_runs_only_once_it_is_trusted(code: Path) -> None:
    with pytest.raises(BadInput, match="--trust"):
        ran(code)
    trust.trust_file(code)
    assert trust.is_trusted(code) and ran(code) == 3


def test_trust_is_of_the_content_and_of_what_it_may_import(code: Path) -> None:
    trust.trust_file(code)
    code.with_name("helper_of_x.py").write_text("VALUE = 4\n")
    with pytest.raises(BadInput, match="--trust"):
        ran(code)
    trust.trust_file(code)
    assert ran(code) == 4
    code.write_text("ANSWER = 5\n")
    assert not trust.is_trusted(code)
    moved = code.parent.parent / "elsewhere"
    code.parent.rename(moved)
    trust.trust_file(moved / "x.py")
    assert ran(moved / "x.py") == 5


def test_the_option_trusts_and_is_remembered(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDTUNNEL_TRUST", "1")
    assert ran(code) == 3
    monkeypatch.delenv("WINDTUNNEL_TRUST")
    assert ran(code) == 3


def test_a_link_never_runs(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = code.with_name("y.py")
    link.symlink_to(code)
    monkeypatch.setenv("WINDTUNNEL_TRUST", "1")
    with pytest.raises(BadInput, match="link"):
        ran(link)


def test_a_folder_that_is_a_link_never_leads_to_code(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code.parent.parent / "linked").symlink_to(code.parent)
    monkeypatch.setenv("WINDTUNNEL_TRUST", "1")
    with pytest.raises(BadInput, match="link"):
        ran(code.parent.parent / "linked" / "x.py")


def test_a_server_runs_code_by_its_own_leave_alone(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trust.trust_file(code)
    monkeypatch.setenv("WINDTUNNEL_TRUST", "1")
    with confined(Scope.of(code.parent)), pytest.raises(BadInput, match="--allow-code"):
        ran(code)
    with confined(Scope.of(code.parent, code="trusted")):
        assert ran(code) == 3
        code.write_text("ANSWER = 6\n")
        with pytest.raises(BadInput, match="--trust"):
            ran(code)
    with confined(Scope.of(code.parent, code="any")):
        assert ran(code) == 6


def test_what_python_compiled_keeps_trust_and_what_it_would_import_does_not(code: Path) -> None:
    trust.trust_file(code)
    (code.parent / "__pycache__").mkdir()
    (code.parent / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"0")
    assert trust.is_trusted(code)
    for name in ("helper.so", "helper.pyd", "helper.pyc", "inner.py"):
        (code.parent / name).write_bytes(b"0")
        assert not trust.is_trusted(code), name
        (code.parent / name).unlink()


@pytest.mark.parametrize("kind", ["module", "package", "inside a package"])
def test_code_that_a_link_would_bring_is_never_imported(code: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    elsewhere = code.parent.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "helper_of_x.py").write_text("VALUE = 9\n")
    code.with_name("helper_of_x.py").unlink()
    trust.trust_file(code)
    if kind == "module":
        code.with_name("helper_of_x.py").symlink_to(elsewhere / "helper_of_x.py")
    else:
        place = code.parent if kind == "package" else code.parent / "inner"
        place.mkdir(exist_ok=True)
        (place / "package").symlink_to(elsewhere)
    monkeypatch.setenv("WINDTUNNEL_TRUST", "1")
    with pytest.raises(BadInput, match="a link, which it may import"):
        ran(code)


def test_links_that_bring_no_code_do_not_matter(code: Path) -> None:
    (code.parent / "data").mkdir()
    code.with_name("latest.csv").symlink_to(code.parent.parent / "runs.csv")
    code.with_name("same").symlink_to(code.parent / "data")
    (code.parent / ".venv").mkdir()
    (code.parent / ".venv" / "lib64").symlink_to(code.parent.parent)
    trust.trust_file(code)
    assert trust.is_trusted(code) and ran(code) == 3
    code.with_name("same").unlink()
    code.with_name("same").symlink_to(code.parent)
    assert not trust.is_trusted(code)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners of this kind")
def test_a_list_that_others_may_write_is_not_trusted(code: Path) -> None:
    trust.trust_file(code)
    store = Path(os.environ["XDG_CONFIG_HOME"], "windtunnel", "trusted.json")
    assert trust.is_trusted(code) and not store.stat().st_mode & 0o077
    store.chmod(0o666)
    assert not trust.is_trusted(code)
    store.unlink()
    os.mkfifo(store)
    assert not trust.is_trusted(code)


# -- the rest


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfmodel: x\n")
    assert reading.read_text(tmp_path / "a.yaml") == "model: x\n"
    with reading.open_text(tmp_path / "a.yaml") as stream:
        assert stream.read() == "model: x\n"


def test_a_confined_process_hands_its_scope_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    confine(Scope.of(root))
    assert current() == Scope.of(root) and os.environ["PYTHONSAFEPATH"] == "1"
    with pytest.raises(BadInput, match="must lie below"):
        reading.read_text("/etc/hostname")


DAMAGE = {
    "cut": lambda raw: raw[: len(raw) // 2],
    "the sum": lambda raw: raw[:-8] + bytes(8),
    "in the middle": lambda raw: raw[:60] + b"\xff" * 40 + raw[100:],
    "behind": lambda raw: raw + b"more",
    "the head": lambda raw: raw[:3] + b"\xff" + raw[4:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_any_damage_of_a_packed_file_is_one_that_readers_expect(tmp_path: Path, damage: str) -> None:
    lines = "".join(f"{i / 7:.6f},{i * 31 % 977},{i * 17 % 89}\n" for i in range(3000))
    (tmp_path / "x.csv.gz").write_bytes(DAMAGE[damage](gzip.compress(lines.encode())))
    with pytest.raises((OSError, EOFError)), reading.open_text(tmp_path / "x.csv.gz") as stream:
        for _ in stream:
            pass
