"""Machine code is compiled again when a kernel source of its package changes, and found wherever the sources lie."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

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
OTHER_CALLER = """
from windtunnel.jit import kernel
from windtunnel.splitmix64.jitted import drawn

@kernel()
def run(x):
    return drawn(x)
"""
OTHER_HELPER = """
from windtunnel.jit import helper

@helper
def drawn(x):
    return x + {step}
"""
RUN = "from windtunnel.{module} import run; print(run(1), sum(run.stats.cache_hits.values()))"
ENGINE, CLUSTERS = "engine.kernels", "clusters.event_loop.queue_kernel"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of the same name that holds the machinery and two kernels, each with its helper in another file.

    The helper of the engine stands next to its kernel, the one of clusters in a package of its own.
    """
    found = tmp_path / "src" / "windtunnel"
    for folder in ("engine", "clusters/event_loop", "splitmix64"):
        (found / folder).mkdir(parents=True)
    for folder in (found, *found.rglob("*/")):
        (folder / "__init__.py").touch()
    for name in ("jit.py", "kernel_cache.py", "arrays.py"):
        shutil.copy(PACKAGE / name, found)
    (found / "engine" / "kernels.py").write_text(CALLER)
    (found / "engine" / "other_kernel.py").write_text(HELPER.format(step=1))
    (found / "clusters" / "event_loop" / "queue_kernel.py").write_text(OTHER_CALLER)
    (found / "splitmix64" / "jitted.py").write_text(OTHER_HELPER.format(step=1))
    return found


def run(package: Path, module: str = ENGINE, **environment: str) -> tuple[int, int]:
    """The kernel's result for 1, and how often it came out of the cache, in a process of its own."""
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    env |= {"PYTHONPATH": str(package.parent), "XDG_CACHE_HOME": str(package.parent / "user"), **environment}
    command = [sys.executable, "-c", RUN.format(module=module)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    result, hits = done.stdout.split()
    return int(result), int(hits)


def _linked(path: Path) -> None:
    path.replace(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _pickle_of_another(path: Path) -> None:
    path.unlink()
    kernel_cache.write_checked(path, b"\x80\x05\x8c\x07no.such\x94\x8c\x03its\x93.")


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no bytes": lambda path: path.write_bytes(b""),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "a bit flipped": _flipped,
    "writable for all": lambda path: path.chmod(0o666),
    "a link": _linked,
    "a folder": _a_folder,
    "of another version": _pickle_of_another,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(damage, id=id, marks=() if id in ("a bit flipped", "a link") else pytest.mark.slow)
        for id, damage in DAMAGE.items()
    ],
)
def test_damaged_machine_code_is_set_aside_and_compiled_anew(package: Path, damage: Callable[[Path], object]) -> None:
    run(package)
    (code,) = (package / "__pycache__").glob(f"{kernel_cache.PREFIX}*/*.nbc")
    damage(code)
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-c", RUN.format(module=ENGINE)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "0"]
    (line,) = done.stderr.splitlines()
    assert "set aside and compiled anew" in line
    assert run(package) == (2, 1)
    assert os.path.lexists(code.with_name(f"{code.name}.damaged"))


@pytest.mark.slow
def test_a_cache_that_others_may_write_to_is_not_used(package: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    run(package, NUMBA_CACHE_DIR=str(told))
    (folder,) = told.iterdir()
    folder.chmod(0o777)
    assert run(package, NUMBA_CACHE_DIR=str(told)) == (2, 0)
    folder.chmod(0o755)
    assert run(package, NUMBA_CACHE_DIR=str(told)) == (2, 1)
    told.chmod(0o777)
    assert run(package, NUMBA_CACHE_DIR=str(told)) == (2, 1), "kept at the first try, in another place"
    assert directories(package / "__pycache__", "engine")


def test_a_cache_that_is_a_link_is_not_used(package: Path, tmp_path: Path) -> None:
    told = tmp_path / "told"
    run(package, NUMBA_CACHE_DIR=str(told))
    (folder,) = told.iterdir()
    folder.rename(tmp_path / "planted")
    folder.symlink_to(tmp_path / "planted")
    assert run(package, NUMBA_CACHE_DIR=str(told)) == (2, 0)


def run_without_a_cache(package: Path) -> tuple[list[str], str]:
    """Result, hits of the cache and errors where no place for a cache can be written to."""
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package / "__pycache__").write_text("a file where the folder should be")
    nowhere = {name: "/proc/none" for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR", "NUMBA_CACHE_DIR")}
    preset = "import tempfile; tempfile.gettempdir = lambda: '/proc/none'; "
    env = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **nowhere}
    command = [sys.executable, "-c", preset + RUN.format(module=ENGINE)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.split(), done.stderr


def test_without_any_place_for_a_cache_kernels_run(package: Path) -> None:
    assert run_without_a_cache(package) == (["2", "0"], "")


def test_without_any_place_for_a_cache_the_installations_machine_code_is_used(installed: Path) -> None:
    assert run_without_a_cache(installed) == (["2", "1"], "")


def directories(parent: Path, package: str = "") -> list[str]:
    return sorted(p.name for p in parent.glob(f"{kernel_cache.PREFIX}{package}*"))


@pytest.mark.slow
def test_an_edit_of_a_helper_in_another_file_compiles_its_callers_again(package: Path) -> None:
    assert run(package) == (2, 0)
    assert run(package) == (2, 1)
    (package / "engine" / "other_kernel.py").write_text(HELPER.format(step=10))
    assert run(package) == (11, 0)
    assert run(package) == (11, 1)
    assert len(directories(package / "__pycache__", "engine-")) == 2


@pytest.mark.slow
def test_an_edit_of_one_package_leaves_the_machine_code_of_others(package: Path) -> None:
    assert [run(package), run(package, CLUSTERS)] == [(2, 0), (2, 0)]
    (package / "engine" / "other_kernel.py").write_text(HELPER.format(step=10))
    assert [run(package), run(package, CLUSTERS)] == [(11, 0), (2, 1)]
    assert len(directories(package / "__pycache__", "clusters.event_loop-")) == 1


@pytest.mark.slow
def test_an_edit_of_a_helper_in_another_package_compiles_its_callers_again(package: Path) -> None:
    assert [run(package), run(package, CLUSTERS)] == [(2, 0), (2, 0)]
    (package / "splitmix64" / "jitted.py").write_text(OTHER_HELPER.format(step=10))
    assert [run(package), run(package, CLUSTERS)] == [(2, 1), (11, 0)]


@pytest.mark.slow
def test_a_copy_of_the_sources_elsewhere_and_of_another_age_compiles_nothing(package: Path, tmp_path: Path) -> None:
    shared = str(tmp_path / "shared")
    assert run(package, CLUSTERS, NUMBA_CACHE_DIR=shared) == (2, 0)
    kept = {p: p.stat().st_mtime_ns for p in Path(shared).rglob("*.nb?")}
    copy = tmp_path / "elsewhere" / "a" / "windtunnel"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"), copy_function=shutil.copyfile)
    for source in copy.rglob("*.py"):
        os.utime(source, (1e9, 1e9))
    assert run(copy, CLUSTERS, NUMBA_CACHE_DIR=shared) == (2, 1)
    assert {p: p.stat().st_mtime_ns for p in Path(shared).rglob("*.nb?")} == kept
    assert {p.suffix for p in kept} == {".nbc"}


def test_a_kernel_outside_of_all_lists_is_an_error(package: Path) -> None:
    (package / "engine" / "stray.py").write_text(CALLER)
    with pytest.raises(subprocess.CalledProcessError) as error:
        run(package, "engine.stray")
    assert (
        "stray.py holds a kernel and is in no package of windtunnel.kernel_cache.KERNEL_SOURCES" in error.value.stderr
    )


def test_a_package_that_cannot_be_written_to_is_cached_for_the_user(package: Path) -> None:
    shutil.rmtree(package / "__pycache__", ignore_errors=True)
    (package / "__pycache__").touch()  # a file, so that no directory can be made there, not even by root
    assert run(package) == (2, 0)
    assert run(package) == (2, 1)
    assert len(directories(package.parent / "user" / "windtunnel", "engine-")) == 1


def test_a_directory_that_numba_is_told_comes_first(package: Path, tmp_path: Path) -> None:
    assert run(package, NUMBA_CACHE_DIR=str(tmp_path / "own")) == (2, 0)
    assert len(directories(tmp_path / "own", "engine-")) == 1
    assert directories(package / "__pycache__") == []


def test_only_the_directories_of_a_package_used_last_stay(tmp_path: Path) -> None:
    family = f"{kernel_cache.PREFIX}engine-"
    for i in range(kernel_cache.KEPT + 2):
        old = tmp_path / f"{family}{i}"
        old.mkdir()
        os.utime(old, (i, i))
    others = ["other", f"{kernel_cache.PREFIX}clusters-0"]
    for other in others:
        (tmp_path / other).mkdir()
        os.utime(tmp_path / other, (0, 0))
    kernel_cache._open(tmp_path / f"{family}new", family)
    stay = [f"{family}{i}" for i in range(3, kernel_cache.KEPT + 2)] + [f"{family}new"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*stay, *others])


@pytest.fixture
def installed(package: Path) -> Path:
    """The same package with machine code for the baseline, as a wheel for one platform has it."""
    name, features = kernel_cache.BASELINE
    told = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    assert run(package, NUMBA_CACHE_DIR=str(package / "machine_code"), **told) == (2, 0)
    return package


def code_of(package: Path, folder: str = "machine_code") -> list[Path]:
    return sorted((package / folder).glob(f"{kernel_cache.PREFIX}*/*.nbc"))


def test_machine_code_that_came_with_the_installation_is_not_compiled(installed: Path, tmp_path: Path) -> None:
    assert run(installed, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == (2, 1)
    assert not list((tmp_path / "cache").rglob("*.nbc"))


def _of_another_numba(package: Path) -> None:
    (folder,) = (package / "machine_code").iterdir()
    folder.rename(folder.with_name(folder.name[:-16] + "0" * 16))


def _of_another_source(package: Path) -> None:
    (package / "engine" / "kernels.py").write_text(CALLER.replace("grown(x)", "grown(x) + 0"))


def _of_a_helpers_other_source(package: Path) -> None:
    (package / "engine" / "other_kernel.py").write_text(HELPER.format(step=1) + "# other\n")


def _damaged(damage: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(package: Path) -> None:
        for path in code_of(package):
            damage(path)

    return change


OTHERS: dict[str, Callable[[Path], None]] = {
    "of another Numba": _of_another_numba,
    "of another source": _of_another_source,
    "of another source of a helper": _of_a_helpers_other_source,
    "damaged": _damaged(_flipped),
    "cut short": _damaged(DAMAGE["cut short"]),
    "a folder": _damaged(_a_folder),
    "a pickle of another version": _damaged(_pickle_of_another),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", [pytest.param(change, id=id) for id, change in OTHERS.items()])
def test_other_machine_code_stays_and_the_kernel_is_compiled_once(
    installed: Path, change: Callable[[Path], None]
) -> None:
    change(installed)
    held = {path: path.is_dir() or path.read_bytes() for path in code_of(installed)}
    assert run(installed) == (2, 0)
    assert run(installed) == (2, 1)
    assert len(code_of(installed, "__pycache__")) == 1
    assert {path: path.is_dir() or path.read_bytes() for path in code_of(installed)} == held


@pytest.mark.slow
def test_machine_code_that_came_with_the_installation_is_looked_up_last(installed: Path) -> None:
    (code,) = code_of(installed)
    whole = code.read_bytes()
    _flipped(code)
    assert run(installed) == (2, 0)
    own = {path: path.stat().st_mtime_ns for path in code_of(installed, "__pycache__")}
    code.write_bytes(whole)
    assert run(installed) == (2, 1)
    assert {path: path.stat().st_mtime_ns for path in code_of(installed, "__pycache__")} == own


@pytest.mark.slow
def test_machine_code_of_another_users_installation_is_used(installed: Path, tmp_path: Path) -> None:
    """An installation belongs to whoever made it, and its modules are executed all the same."""
    for code in code_of(installed):
        code.chmod(0o664)
        _linked(code)
    assert run(installed, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == (2, 1)


@pytest.fixture
def came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory in which a package's machine code came with the installation, beside its empty cache."""
    monkeypatch.setattr(kernel_cache, "STORED", tmp_path / "machine_code")
    monkeypatch.setattr(kernel_cache, "_processor_flags", lambda: kernel_cache._BASELINE_FLAGS | {"avx512f"})
    for name in [name for name in os.environ if name.startswith("NUMBA_") and name != "NUMBA_CACHE_DIR"]:
        monkeypatch.delenv(name)
    directory = Path(kernel_cache.cache_directory("engine"))
    monkeypatch.setattr(kernel_cache, "cache_directory", lambda _: str(tmp_path / "cache" / directory.name))
    found = tmp_path / "machine_code" / directory.name
    found.mkdir(parents=True)
    (found / "k.compiled").touch()
    forget()
    yield found
    forget()


def forget() -> None:
    for kept in (kernel_cache.why_not_stored, kernel_cache.stored_directory, kernel_cache.is_compiled):
        kept.cache_clear()


def lookup(directory: Path) -> tuple[bool, str]:
    """Whether a kernel counts as compiled, and why what came with the installation cannot be used."""
    forget()
    found = kernel_cache.stored_directory(Path(kernel_cache.cache_directory("engine")))
    assert found in (None, directory)
    assert kernel_cache.is_compiled("engine/k") == (found is not None)
    return found is not None, kernel_cache.why_not_stored()


def test_what_came_with_the_installation_counts_as_compiled(came: Path) -> None:
    assert lookup(came) == (True, "")


def test_a_processor_below_the_baseline_compiles_for_itself(came: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for flag in kernel_cache._BASELINE_FLAGS:
        less = kernel_cache._BASELINE_FLAGS - {flag}
        monkeypatch.setattr(kernel_cache, "_processor_flags", partial(frozenset, less))
        assert lookup(came) == (False, f"this processor is below x86-64-v3: it lacks {flag}")


def test_a_processor_that_nothing_is_known_of_compiles_for_itself(came: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_processor_flags", frozenset)
    assert not lookup(came)[0]


@pytest.mark.parametrize("name", ["NUMBA_CPU_NAME", "NUMBA_OPT", "NUMBA_BOUNDSCHECK", "NUMBA_DEBUGINFO"])
def test_who_tells_numba_how_to_compile_gets_that(came: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    assert lookup(came) == (False, f"{name} may change machine code")


def test_variables_that_leave_machine_code_alone(came: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    assert lookup(came) == (True, "")


def test_an_installation_of_another_numba_says_so(came: Path) -> None:
    came.rename(came.with_name(f"{kernel_cache.PREFIX}engine-{'0' * 16}"))
    assert lookup(came) == (False, "they are for another Python, Numba or LLVM than these")


def test_an_installation_without_machine_code_has_nothing_to_say(came: Path) -> None:
    shutil.rmtree(kernel_cache.STORED)
    assert lookup(came) == (False, "")


TWINS = ("test_engine_laws.py", "test_cluster_laws.py", "test_run_loop.py", "test_flows.py", "serving/test_loop.py")


@pytest.mark.slow
def test_kernels_of_the_baseline_are_their_twins() -> None:
    """The tests that hold each kernel against its plain twin, compiled as wheels for one platform have them."""
    name, features = kernel_cache.BASELINE
    environment = os.environ | {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features}
    words = ["-q", "-p", "no:xdist", "--benchmark-disable", "-k", "twin or same_bits"]
    files = [str(ROOT / "tests" / "property" / name) for name in TWINS]
    command = [sys.executable, "-m", "pytest", *words, *files]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports when it runs, functions' own imports included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_hash_of_a_package_covers_its_kernels_and_what_they_read() -> None:
    """Constants of a module that a kernel imports are compiled in, so that module belongs to the hash as well."""
    own = {package: set(kernel_cache.kernel_sources(PACKAGE, package)) for package in kernel_cache.KERNEL_SOURCES}
    common = {PACKAGE / name for name in kernel_cache.COMMON_SOURCES}
    for package, patterns in kernel_cache.KERNEL_SOURCES.items():
        assert all(list((PACKAGE / package).glob(pattern)) for pattern in patterns), package
    listed = set().union(*own.values())
    assert sum(map(len, own.values())) == len(listed), "a file is in one package"
    for path in sorted(PACKAGE.rglob("*.py")):
        found = set(imports(path))
        if "windtunnel.jit" in found:
            assert path in listed, f"{path} holds kernels: add it to kernel_cache.KERNEL_SOURCES"
        if path not in listed | common:
            assert not {"numba.njit", "numba.jit"} & found, f"{path}: use windtunnel.jit"
            continue
        if path in common - {PACKAGE / "jit.py"}:
            hashed = common
        else:
            package = next((p for p, sources in own.items() if path in sources), "")
            called = kernel_cache.CALLED_PACKAGES.get(package, ())
            hashed = common.union(*(own[p] for p in (package, *called) if p), {PACKAGE / "kernel_cache.py"})
        for name in found:
            module = (PACKAGE.parent / Path(*name.split("."))).with_suffix(".py")
            if name.startswith("windtunnel.") and module.exists():
                assert module in hashed, f"{path} reads {name}: add it to kernel_cache.KERNEL_SOURCES"


def test_small_work_runs_on_the_twin_until_the_budget_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_forced", [])
    monkeypatch.setattr(kernel_cache, "_twin_s", {})
    monkeypatch.setattr(kernel_cache, "cache_directory", lambda _: str(tmp_path))
    kernel_cache.is_compiled.cache_clear()
    kernel_cache._spent_before.cache_clear()
    assert kernel_cache.runs_on_twin("engine/k", 0.75 * kernel_cache.TWIN_BUDGET_S)
    assert not kernel_cache.runs_on_twin("engine/k", 0.75 * kernel_cache.TWIN_BUDGET_S)
    assert kernel_cache.runs_on_twin("engine/k", 0.2 * kernel_cache.TWIN_BUDGET_S)
    kernel_cache.mark_compiled("engine/k")
    assert not kernel_cache.runs_on_twin("engine/k", 0.0)
    kernel_cache.is_compiled.cache_clear()


def test_twins_of_all_processes_take_no_longer_than_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_forced", [])
    monkeypatch.setattr(kernel_cache, "cache_directory", lambda _: str(tmp_path))
    runs = 0
    for _ in range(100):  # each turn stands for a process
        kernel_cache.is_compiled.cache_clear()
        kernel_cache._spent_before.cache_clear()
        monkeypatch.setattr(kernel_cache, "_twin_s", {})
        if not kernel_cache.runs_on_twin("engine/k", 1.0):
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


def test_nothing_compiles_while_another_thread_imports_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of the progress line may ask when `windtunnel.jit` is half imported."""
    monkeypatch.setitem(sys.modules, "windtunnel.jit", ModuleType("windtunnel.jit"))
    assert (kernel_cache.compiling(), kernel_cache.compile_seconds()) == (False, 0.0)
