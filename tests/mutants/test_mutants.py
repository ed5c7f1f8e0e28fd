"""The damage of `make mutants`: operators, what is left out, which tests a mutant gets, and what counts as noticed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import mutant_coverage_patterns
import mutant_index
import mutant_sites
import mutants_run
import numpy as np
import pytest
from mutant_import import PACKAGE, Recorder, unit_hash

from windtunnel.kernel_cache import COMMON_SOURCES, KERNEL_SOURCES


def damaged(source: str, operator: str) -> list[str]:
    """Every text that an operator makes of a source."""
    found = []
    for site in mutant_sites.sites("file.py", source):
        if site.operator == operator:
            tree = ast.parse(source)
            mutant_sites.apply(tree, site)
            compile(tree, "file.py", "exec")
            found.append(ast.unparse(tree))
    return found


@pytest.mark.parametrize(
    ("operator", "source", "expected"),
    [
        ("comparison", "a < b", ["a <= b"]),
        ("comparison", "a <= b < c", ["a < b < c", "a <= b <= c"]),
        ("comparison", "a == b", ["a != b"]),
        ("comparison", "a is not None", ["a is None"]),
        ("arithmetic", "a + b * c", ["a - b * c", "a + b / c"]),
        ("arithmetic", "a -= b", ["a += b"]),
        ("arithmetic", "'text' + b", []),
        ("extreme", "min(a, b)", ["max(a, b)"]),
        ("extreme", "np.maximum(a, b)", ["np.minimum(a, b)"]),
        ("constant", "a = 3", ["a = 4"]),
        ("constant", "a = 1.5", ["a = 3.0"]),
        ("constant", "a = 0.0", ["a = 1.0"]),
        ("constant", "def f(a=True):\n    pass", ["def f(a=False):\n    pass"]),
        ("negation", "a = not b", ["a = not not b"]),
        ("junction", "a and b", ["a or b"]),
        ("keyword", "f(a, b=c, **d)", ["f(a, **d)"]),
        ("neighbours", "f(a, b, b)", ["f(b, a, b)"]),
        ("neighbours", "f(a=b, c=d)", ["f(a=d, c=b)"]),
        ("neighbours", "{'a': b, 'c': d}", ["{'a': d, 'c': b}"]),
        ("statement", "if a:\n    f(b)", ["if a:\n    pass"]),
        ("statement", "with a:\n    b += 1", ["with a:\n    pass"]),
        ("returned", "def f():\n    return a\n    return b", ["def f():\n    return b\n    return b"]),
        ("sort_key", "sorted(a, key=b)", ["sorted(a, key=b, reverse=True)"]),
    ],
)
def test_operators(operator: str, source: str, expected: list[str]) -> None:
    assert sorted(damaged(source, operator)) == sorted(expected)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 3."""',
        "raise ValueError(f'{a + 1}')",
        "a: Field[3]",
        "@cache(maxsize=3)\ndef f():\n    return None",
        "a = zip(b, strict=True)",
        "if TYPE_CHECKING:\n    pass",
        "a = 'id'",
    ],
)
def test_what_is_never_damaged(source: str) -> None:
    assert list(mutant_sites.sites("file.py", source)) == []


SOURCE = '''
def f(a, b=2):
    """Say which."""
    c = a + 1
    if c > b:
        return 1
    for d in range(a):
        c += d
    return c
'''


def test_a_site_knows_the_straight_run_that_executes_it() -> None:
    segments = {(site.line, site.segment) for site in mutant_sites.sites("file.py", SOURCE)}
    by_line = dict(segments)
    assert len(by_line) == len(segments)
    assert by_line[2] == -1
    assert by_line[4] == by_line[5]
    assert len({by_line[line] for line in (4, 6, 8)}) == 3


@pytest.mark.parametrize(("a", "lines"), [(5, {4, 5, 6}), (1, {4, 5, 7, 8, 9}), (0, {4, 5, 7, 9})])
def test_the_recorder_marks_what_runs(a: int, lines: set[int]) -> None:
    recorder = Recorder(lambda file: False)
    tree = ast.parse(SOURCE)
    assert recorder._mark("file.py", tree)
    names: dict[str, object] = {"_hits_": recorder.hits}
    exec(compile(tree, "file.py", "exec"), names)
    names["f"](a, 5)  # type: ignore[operator]
    hit = {segment for (*_, segment), hit in zip(recorder.keys, recorder.hits, strict=False) if hit}
    (_, unit), *_ = mutant_sites.units(ast.parse(SOURCE))
    executed = {
        node.lineno
        for node, segment in mutant_sites.segment_of_nodes(unit).items()
        if segment in hit and isinstance(node, ast.stmt) and not mutant_sites.is_docstring(node)
    }
    assert executed == (lines - {6} if a != 5 else lines)


def test_files_of_jitted_functions_are_told_apart() -> None:
    files = [str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py")]
    patterns = [*COMMON_SOURCES, *(f"{package}/{each}" for package, own in KERNEL_SOURCES.items() for each in own)]
    jitted = {str(path.relative_to(PACKAGE)) for pattern in patterns for path in PACKAGE.glob(pattern)}
    assert {file for file in files if mutant_index.is_jitted(file, mutant_coverage_patterns.JITTED)} == jitted


# -- the index


UNITS = "units.py"


def write_index(path: Path, tests: dict[str, list[str]]) -> None:
    """An index in which tests execute all segments of some functions of `units.py`."""
    database = mutant_index.connect(path)
    hashes = mutant_index.unit_hashes((PACKAGE / UNITS).read_text("utf-8"))
    ids: dict[str, list[int]] = {}
    for name, unit in mutant_sites.units(ast.parse((PACKAGE / UNITS).read_text("utf-8"))):
        for segment, _, _ in mutant_sites.segments(unit):
            row = (UNITS, name, hashes[name], segment)
            cursor = database.execute("insert into segments(file, unit, hash, segment) values (?, ?, ?, ?)", row)
            ids.setdefault(name, []).append(int(cursor.lastrowid or 0))
    for test, functions in tests.items():
        blob = zlib.compress(np.array(sorted(id for name in functions for id in ids[name]), np.int32).tobytes())
        database.execute("insert into tests values (?, ?, ?, ?, ?, ?)", (test, test.split("::")[0], "", 1, 0.1, blob))
    database.commit()
    database.close()


def test_the_index_follows_a_function_to_another_file(tmp_path: Path) -> None:
    test = "tests/unit/test_units.py::test_one"
    write_index(tmp_path / "index.db", {test: ["parse_quantity"]})
    index = mutant_index.Index(tmp_path / "index.db")
    digest = mutant_index.unit_hashes((PACKAGE / UNITS).read_text("utf-8"))["parse_quantity"]
    assert index.of_segment(UNITS, "parse_quantity", digest, 0) == {0}
    assert index.of_segment("elsewhere.py", "parse_quantity", digest, 0) == {0}
    assert index.of_segment(UNITS, "parse_quantity", "edited since", 7) == {0}
    assert index.of_segment(UNITS, "parse_quantity", digest, 99) == set()
    assert index.of_segment("elsewhere.py", "parse_quantity", "another function", 0) == set()
    assert index.tests[0].id == test


def test_a_hash_leaves_the_place_of_a_function_aside() -> None:
    one, other = ast.parse("def f():\n    return 1").body[0], ast.parse("\n\ndef f():\n    return  1").body[0]
    assert unit_hash(one) == unit_hash(other) != unit_hash(ast.parse("def f():\n    return 2").body[0])


def test_equivalent_mutants_are_found_by_their_text() -> None:
    site = mutant_sites.Site("a.py", "f", 0, 1, 0, "comparison", 0)
    mutant = mutants_run.Mutant(site, "a < b", "a <= b")
    listed = {"file": "a.py", "unit": "f", "before": "a < b", "after": "a <= b", "reason": "never equal"}
    assert mutants_run.is_equivalent(mutant, [listed])
    assert not mutants_run.is_equivalent(mutant, [{**listed, "after": "a > b"}])


def test_every_equivalent_mutant_has_a_reason_and_its_file() -> None:
    for each in mutants_run._equivalents():
        assert set(each) == {"file", "unit", "before", "after", "reason"}
        assert len(each["reason"].split()) > 3
        assert each["before"] != each["after"]


# -- a whole run


@pytest.mark.slow
def test_a_run_draws_tries_and_goes_on(tmp_path: Path) -> None:
    """Twice the same draw; kills are confirmed, outcomes kept, and a run without an index says what to do."""
    environment = os.environ | {"WINDTUNNEL_MUTANTS_INDEX": str(tmp_path / "index.db")}
    environment["PYTHONPATH"] = str(Path(mutants_run.__file__).parent)
    record = ["-m", "pytest", "-q", "-p", "mutant_coverage", "-p", "no:cacheprovider", "tests/unit/test_units.py"]
    subprocess.run([sys.executable, *record], cwd=mutant_index.ROOT, env=environment, check=True, capture_output=True)
    command = [sys.executable, str(Path(mutants_run.__file__)), "--index", str(tmp_path / "index.db"), "--only", UNITS]
    command += ["--mutants", "3", "--seed", "2", "--jobs", "1", "--bar", "1"]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    kept = [json.loads(line) for line in (tmp_path / "2-units.py.jsonl").read_text("utf-8").splitlines()]
    assert len(kept) == 3
    assert "killed" in {each["outcome"] for each in kept}
    able = ("tests/unit/test_units.py", "tests/golden/test_defaults_golden.py")  # its own tests, and stored constants
    assert all(each["by"].startswith(able) for each in kept if each["outcome"] == "killed")
    second = subprocess.run(command, capture_output=True, text=True, check=True)
    assert first.stdout.splitlines()[-1] == second.stdout.splitlines()[-1]
    assert "of 3 mutants live" in second.stdout
    assert "3/3" not in second.stdout
    command[3] = str(tmp_path / "none.db")
    assert subprocess.run(command, check=False, capture_output=True).returncode == 2


def test_a_kill_by_a_test_that_fails_undamaged_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    site = mutant_sites.Site("units.py", "parse_quantity", 0, 1, 0, "comparison", 0)
    pool = mutants_run.Pool(1, ())
    started: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(pool, "_start", lambda mutant, kind, tests: started.append((kind, list(tests))))
    mutant = mutants_run.Mutant(site, "", "", ["t.py::bad", "t.py::good"])
    pool._passes["t.py::bad", True] = False
    assert list(pool._judge_kill(mutant, "t.py::bad")) == []
    assert started == [("mutant", ["t.py::good"])]
    assert list(pool._judge_kill(mutant, "t.py::good")) == []
    assert started[1:] == [("check", ["t.py::good"])]
    pool._passes["t.py::good", True] = True
    assert [each.outcome for each in pool._judge_kill(mutant, "t.py::good")] == ["killed"]
