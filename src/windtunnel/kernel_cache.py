"""Directories that keep compiled kernels, one for each package that has kernels, and whether a kernel is compiled.

A wheel for one platform holds the same directories, filled (ADR 54): what a cache lacks is looked up there.

A kernel is named by its package in `KERNEL_SOURCES`, a slash and a name, such as "clusters/event_loop/queue".

Importing this module does not import Numba.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

KERNEL_SOURCES = {
    "clusters/event_loop": ("*kernel.py", "*records.py"),
    "engine": ("*kernel*.py",),
    "runs/event_loop": ("kernels/*.py", "program.py"),
    "serving/event_loop": ("kernels/*.py",),
    "splitmix64": ("jitted.py",),
}
"""Package → its files that hold jitted functions, or constants that these read: patterns below the package's folder."""
CALLED_PACKAGES = {
    "clusters/event_loop": ("splitmix64",),
    "runs/event_loop": ("splitmix64",),
    "serving/event_loop": ("splitmix64",),
}
"""Package → packages whose jitted functions its own ones call, so that their machine code is part of its own."""
COMMON_SOURCES = ("jit.py", "arrays.py")
"""Files that the jitted functions of every package read."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
ROOT = Path(__file__).resolve().parent
PREFIX = "windtunnel-kernels-"
KEPT = 6
"""Cache directories of a package that stay, the one in use included: other versions of its sources, Python or Numba."""
STORED = ROOT / "machine_code"
"""Directories of compiled kernels that came with the installation; only wheels for one platform have them."""
BASELINE = "x86-64-v3", "+sse4.2,+avx,+avx2,+fma"
"""Name and features of the processor that they are compiled for, as `NUMBA_CPU_NAME` and `NUMBA_CPU_FEATURES`."""
_BASELINE_FLAGS = frozenset("pni ssse3 sse4_1 sse4_2 popcnt cx16 lahf_lm avx avx2 bmi1 bmi2 f16c fma abm movbe".split())
"""What a processor has to have for it, as Linux names it."""
_NO_CODE = frozenset(["NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER"])
"""Variables of Numba that do not change machine code."""


TWIN_BUDGET_S = 2.0
"""Seconds that a process may spend on a plain twin while its kernel is not compiled yet; compiling takes longer."""
COMPILE_S = 20.0
"""Seconds of twins, over all processes, after which the kernel is compiled: about what compiling takes."""
_twin_s: dict[str, float] = {}
"""Kernel → seconds that its twin was expected to take so far in this process."""


_forced: list[bool] = []
"""Not empty while kernels have to run."""


@contextlib.contextmanager
def always_compiled() -> Iterator[None]:
    """Run kernels in this block, whatever the work: for warming the cache, benchmarks and tests of kernels."""
    _forced.append(True)
    try:
        yield
    finally:
        _forced.pop()


@cache
def is_compiled(kernel: str) -> bool:
    """Whether a kernel, or one specialisation of it, has run compiled with this cache before, or came compiled."""
    with contextlib.suppress(OSError):
        own = kernel_file(kernel, "compiled")
        stored = stored_directory(own.parent)
        return own.exists() or (stored is not None and (stored / own.name).exists())
    return False


def mark_compiled(kernel: str) -> None:
    """Note that a kernel has run compiled, so that later processes load its machine code at once."""
    if not is_compiled(kernel):
        with contextlib.suppress(OSError):
            kernel_file(kernel, "compiled").touch()
        is_compiled.cache_clear()


def kernel_file(kernel: str, suffix: str) -> Path:
    """A file that notes something about a kernel, in the directory of its package's machine code.

    Raises:
        OSError: The directory cannot be made.
    """
    package, _, name = kernel.rpartition("/")
    return Path(cache_directory(package), f"{name}.{suffix}")


@cache
def stored_directory(directory: Path) -> Path | None:
    """The directory of a package's kernels that came with the installation, where this process can run them.

    Args:
        directory: of the same kernels in a cache; its name says what they depend on.
    """
    stored = STORED / directory.name
    return stored if not why_not_stored() and stored.is_dir() else None


@cache
def why_not_stored() -> str:
    """Why the kernels that came with the installation cannot be used; empty: they can, or none came."""
    if not STORED.is_dir():
        return ""
    if changed := sorted(name for name in os.environ if name.startswith("NUMBA_") and name not in _NO_CODE):
        return f"{', '.join(changed)} may change machine code"
    if lacking := _BASELINE_FLAGS - _processor_flags():
        return f"this processor is below {BASELINE[0]}: it lacks {', '.join(sorted(lacking))}"
    if not any((STORED / _directory_name(package)).is_dir() for package in KERNEL_SOURCES):
        return "they are for another Python, Numba or LLVM than these"
    return ""


def _processor_flags() -> frozenset[str]:
    """What this processor has, as Linux names it; nothing where that cannot be read."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "flags":
                return frozenset(value.split())
    return frozenset()


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling kernels; what the cache had costs none."""
    seconds = _of_jit("compile_seconds")
    return float(seconds()) if seconds is not None else 0.0


def compiling() -> bool:
    """Whether a kernel is being compiled at this moment, by any thread of this process."""
    asked = _of_jit("compiling")
    return asked is not None and bool(asked())


def _of_jit(name: str) -> Any:
    """A function of `windtunnel.jit`; None before it is imported, and while another thread imports it."""
    return getattr(sys.modules.get("windtunnel.jit"), name, None)


def runs_on_twin(kernel: str, twin_s: float) -> bool:
    """Whether a piece of work is done sooner by the plain twin than by compiling the kernel first.

    Args:
        kernel: package and name of the jitted function and its specialisation, as `mark_compiled` is given it.
        twin_s: expected seconds of the twin for this piece of work.

    The kernel runs once it has been compiled with this cache, once a process has spent `TWIN_BUDGET_S` on its twin, or
    once all processes together have spent `COMPILE_S`: who predicts often does not wait more than compiling takes.
    """
    if _forced or is_compiled(kernel):
        return False
    spent = _twin_s.get(kernel, 0.0) + twin_s
    if spent > TWIN_BUDGET_S or _spent_before(kernel) + spent > COMPILE_S:
        return False
    _twin_s[kernel] = spent
    with contextlib.suppress(OSError):
        kernel_file(kernel, "twin_s").write_text(f"{_spent_before(kernel) + spent:.3f}")
    return True


@cache
def _spent_before(kernel: str) -> float:
    """Seconds that earlier processes spent on the twin of a kernel."""
    with contextlib.suppress(OSError, ValueError):
        return seconds_noted(kernel_file(kernel, "twin_s"))
    return 0.0


def seconds_noted(path: Path) -> float:
    """The seconds that a file of the cache notes.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged.
    """
    seconds = float(path.read_text("utf-8"))
    if not 0.0 <= seconds < math.inf:
        raise ValueError(f"{path}: no time")
    return seconds


@cache
def cache_directory(package: str) -> str:
    """The directory of a package's machine code, made if it is missing; directories long out of use are removed.

    It lies in the directory that `NUMBA_CACHE_DIR` names, if that is set; else in windtunnel's `__pycache__`; else,
    where windtunnel cannot be written to, in the user's cache directory; else in a private temporary directory. Nothing
    in its name or in it depends on where the sources lie, so that several copies of them can share one. What is in it
    is executed, so that a directory is used only where it is this user's and nobody else may write to it. Where there
    is none at all, the path leads nowhere: kernels are compiled and not kept.
    """
    name = _directory_name(package)
    family = name.rpartition("-")[0] + "-"
    for parent in _parents(ROOT):
        with contextlib.suppress(OSError):
            return str(_open(parent / name, family))
    with contextlib.suppress(OSError):
        return str(_open(_private_directory() / name, family))
    return os.path.join(os.devnull, name)


def _directory_name(package: str) -> str:
    return f"{PREFIX}{package.replace('/', '.')}-{source_hash(ROOT, package)}"


def read_checked(path: Path) -> bytes | None:
    """The content of a file that `write_checked` wrote; None where there is none. A damaged one is set aside."""
    try:
        handle = os.open(path, os.O_RDONLY | _NO_LINK)
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or not _of_this_user(status):
                raise OSError("it is no file of this user alone")
            content = stream.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        set_aside(path, error.strerror or str(error))
        return None
    return _checked(path, content)


def read_stored(path: Path) -> bytes | None:
    """The same for a file that came with the installation, which may belong to another user, as its modules may."""
    try:
        return _checked(path, path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        set_aside(path, error.strerror or str(error))
        return None


def _checked(path: Path, content: bytes) -> bytes | None:
    if hashlib.sha256(content[_SUM:]).digest() != content[:_SUM]:
        set_aside(path, "its checksum does not fit")
        return None
    return content[_SUM:]


def write_checked(path: Path, content: bytes) -> None:
    """Keep content with its checksum, whole or not at all; where it cannot be written, it is not kept."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o755, exist_ok=True)
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o644), "wb") as stream:
                stream.write(hashlib.sha256(content).digest() + content)
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise


_SUM = hashlib.sha256().digest_size


def set_aside(path: Path, why: str) -> None:
    """Rename a file of the cache that cannot be used, and say so in one line on standard error.

    One that came with the installation stays: the cache, which is looked up first, has a new one from now on.
    """
    if STORED in path.parents:
        sys.stderr.write(f"note: stored kernel {path} cannot be used ({why}): it is compiled anew\n")
        return
    aside = path.with_name(f"{path.name}.damaged")
    with contextlib.suppress(OSError):
        if aside.is_dir() and not aside.is_symlink():
            aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.damaged")
        path.replace(aside)
    sys.stderr.write(f"note: compiled kernel {path} cannot be used ({why}): it is set aside and compiled anew\n")


def _of_this_user(status: os.stat_result) -> bool:
    """Whether this user alone may write to a file or a folder."""
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)


def package_of(source: Path) -> str:
    """The package whose list of kernel sources a file is in.

    Raises:
        LookupError: It is in none.
    """
    for package in KERNEL_SOURCES:
        if source in kernel_sources(ROOT, package):
            return package
    raise LookupError(f"{source} holds a kernel and is in no package of windtunnel.kernel_cache.KERNEL_SOURCES")


@cache
def kernel_sources(root: Path, package: str) -> tuple[Path, ...]:
    """Files of a package that hold jitted functions, or constants that these read."""
    return tuple(p for pattern in KERNEL_SOURCES[package] for p in sorted((root / package).glob(pattern)))


def source_hash(root: Path, package: str) -> str:
    """16 hexadecimal digits of what a package's machine code depends on: kernel sources, Python, Numba, LLVM."""
    found = hashlib.sha256(repr((sys.version_info[:2], sys.abiflags, version("numba"), version("llvmlite"))).encode())
    sources = [root / name for name in COMMON_SOURCES]
    for compiled in (package, *CALLED_PACKAGES.get(package, ())):
        sources += kernel_sources(root, compiled)
    for path in sources:
        source = path.read_bytes()
        found.update(f"{path.relative_to(root).as_posix()} {len(source)}\n".encode() + source)
    return found.hexdigest()[:16]


def _parents(root: Path) -> Iterator[Path]:
    """Where the directories may lie, the best place first."""
    if told := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(told)
    yield root / "__pycache__"
    with contextlib.suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "windtunnel"


def _open(directory: Path, family: str) -> Path:
    """Make sure that a directory is there and can be written to; a new one displaces the oldest of its family.

    Raises:
        OSError: It cannot be made, or not be written to, or others than this user may write to it.
    """
    fresh = not directory.is_dir()
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o755, exist_ok=True)
    status, around = directory.lstat(), directory.parent.stat()
    if not stat.S_ISDIR(status.st_mode) or not _of_this_user(status):
        raise PermissionError(f"{directory} is not this user's alone")
    if around.st_mode & 0o002 and not around.st_mode & stat.S_ISVTX:
        raise PermissionError(f"everybody may rename what lies in {directory.parent}")
    tempfile.TemporaryFile(dir=directory).close()
    os.utime(directory)
    if fresh:
        _remove_oldest(directory, family)
    return directory


def _remove_oldest(directory: Path, family: str) -> None:
    """Remove directories next to this one whose names begin alike, but for those that were used last.

    A process that still uses one of them has its code in memory and makes the directory again when it compiles more.
    """
    used = []
    for other in directory.parent.glob(family + "*"):
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            used.append((other.stat().st_mtime, other))
    for _, other in sorted(used)[:-KEPT]:
        if other != directory:
            shutil.rmtree(other, ignore_errors=True)


def _private_directory() -> Path:
    """A temporary directory that only this user can write to (what is in it will be executed)."""
    if not hasattr(os, "getuid"):  # Windows: the temporary folder belongs to one user
        path = Path(tempfile.gettempdir(), "windtunnel")
        path.mkdir(exist_ok=True)
        return path
    path = Path(tempfile.gettempdir(), f"windtunnel-{getattr(os, 'getuid', int)()}")
    with contextlib.suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) and _of_this_user(status):
            return path
    return Path(tempfile.mkdtemp(prefix="windtunnel-"))
