"""Machine code is compiled again when any file of kernels changes, and its old directories do not pile up."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from windtunnel import jit, kernel_cache

PACKAGE = Path(jit.__file__).parent
ROOT = Path(__file__).parents[2]
CALLER = """
from windtunnel.engine.other_kernel import grown
from windtunnel.jit import kernel

@kernel()
def run(x):
    return grown(x)
"""
HELPER = """
from windtunnel.jit import helper

@helper
def grown(x):
    return x + {step}
"""
RUN = "from windtunnel.engine.kernels import run; print(run(1), sum(run.stats.cache_hits.values()))"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of the same name that holds the machinery, a kernel, and its helper in another file."""
    found = tmp_path / "src" / "windtunnel"
    (found / "engine").mkdir(parents=True)
    for init in (found, found / "engine"):
        (init / "__init__.py").touch()
    for name in ("jit.py", "kernel_cache.py"):
        shutil.copy(PACKAGE / name, found)
    (found / "engine" / "kernels.py").write_text(CALLER)
    (found / "engine" / "other_kernel.py").write_text(HELPER.format(step=1))
    return found


def run(package: Path, **environment: str) -> tuple[int, int]:
    """The kernel's answer to 1, and how often it came out of the cache, in a process of its own."""
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    env |= {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(package.parent / "user"), **environment}
    done = subprocess.run([sys.executable, "-c", RUN], env=env, capture_output=True, text=True, check=True)
    answer, hits = done.stdout.split()
    return int(answer), int(hits)


def directories(parent: Path) -> list[str]:
    return sorted(p.name for p in parent.glob(kernel_cache.PREFIX + "*"))


def test_an_edit_of_a_helper_in_another_file_compiles_its_callers_again(package: Path) -> None:
    assert run(package) == (2, 0)
    assert run(package) == (2, 1)
    (package / "engine" / "other_kernel.py").write_text(HELPER.format(step=10))
    assert run(package) == (11, 0)
    assert run(package) == (11, 1)
    assert len(directories(package / "__pycache__")) == 2


def test_a_package_that_cannot_be_written_to_is_cached_for_the_user(package: Path) -> None:
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package / "__pycache__").touch()  # a file, so that no directory can be made there, not even by root
    assert run(package) == (2, 0)
    assert run(package) == (2, 1)
    assert len(directories(package.parent / "user" / "windtunnel")) == 1


def test_a_directory_that_numba_is_told_comes_first(package: Path, tmp_path: Path) -> None:
    assert run(package, NUMBA_CACHE_DIR=str(tmp_path / "own")) == (2, 0)
    assert len(directories(tmp_path / "own")) == 1
    assert directories(package / "__pycache__") == []


def test_only_the_directories_used_last_stay(tmp_path: Path) -> None:
    for i in range(kernel_cache.KEPT + 2):
        old = tmp_path / f"{kernel_cache.PREFIX}{i}"
        old.mkdir()
        os.utime(old, (i, i))
    (tmp_path / "other").mkdir()
    kernel_cache._open(tmp_path / f"{kernel_cache.PREFIX}new")
    stay = [f"{kernel_cache.PREFIX}{i}" for i in range(3, kernel_cache.KEPT + 2)] + [f"{kernel_cache.PREFIX}new"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*stay, "other"])


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports when it runs, functions' own imports included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_hash_covers_every_kernel_and_what_kernels_read() -> None:
    """Constants of a module that a kernel imports are compiled in, so that module belongs to the hash as well."""
    hashed = {p for pattern in kernel_cache.KERNEL_SOURCES for p in PACKAGE.glob(pattern)}
    assert all(list(PACKAGE.glob(pattern)) for pattern in kernel_cache.KERNEL_SOURCES)
    for path in sorted(PACKAGE.rglob("*.py")):
        found = set(imports(path))
        if "windtunnel.jit" in found:
            assert path in hashed, f"{path} holds kernels: add it to kernel_cache.KERNEL_SOURCES"
        if path not in hashed:
            assert not {"numba.njit", "numba.jit"} & found, f"{path}: use windtunnel.jit"
            continue
        for name in found:
            own = PACKAGE.parent / Path(*name.split("."))
            if name.startswith("windtunnel.") and own.with_suffix(".py").exists():
                assert own.with_suffix(".py") in hashed, f"{path} reads {name}: add it to kernel_cache.KERNEL_SOURCES"


def test_small_work_runs_on_the_twin_until_the_budget_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_forced", [])
    monkeypatch.setattr(kernel_cache, "_twin_s", {})
    monkeypatch.setattr(kernel_cache, "cache_directory", lambda: str(tmp_path))
    kernel_cache.is_compiled.cache_clear()
    kernel_cache._spent_before.cache_clear()
    assert kernel_cache.runs_on_twin("k", 0.75 * kernel_cache.TWIN_BUDGET_S)
    assert not kernel_cache.runs_on_twin("k", 0.75 * kernel_cache.TWIN_BUDGET_S)
    assert kernel_cache.runs_on_twin("k", 0.2 * kernel_cache.TWIN_BUDGET_S)
    kernel_cache.mark_compiled("k")
    assert not kernel_cache.runs_on_twin("k", 0.0)
    kernel_cache.is_compiled.cache_clear()


def test_twins_of_all_processes_take_no_longer_than_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_forced", [])
    monkeypatch.setattr(kernel_cache, "cache_directory", lambda: str(tmp_path))
    runs = 0
    for _ in range(100):  # each turn stands for a process
        kernel_cache.is_compiled.cache_clear()
        kernel_cache._spent_before.cache_clear()
        monkeypatch.setattr(kernel_cache, "_twin_s", {})
        if not kernel_cache.runs_on_twin("k", 1.0):
            break
        runs += 1
    assert runs == kernel_cache.COMPILE_S
    kernel_cache.is_compiled.cache_clear()
    kernel_cache._spent_before.cache_clear()


@pytest.mark.parametrize("verb, file", [("train", "llama3-8b-8xh100-fsdp"), ("serve", "serving/llama3-70b-4xh100")])
def test_a_first_run_compiles_nothing(verb: str, file: str, tmp_path: Path) -> None:
    """Both engines give the same bits, so that only the seconds tell which one ran."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "windtunnel.cli.main", verb, str(ROOT / f"examples/{file}.yaml"), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "compiled kernels" not in done.stderr
    assert not list(tmp_path.rglob("*.nbi"))
