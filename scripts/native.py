"""Wheels for one platform: the pure wheel with machine code of its kernels (ADR 54); first commands from them."""

from __future__ import annotations

import base64
import hashlib
import time
import zipfile
from pathlib import Path

from distributions import Environment, Failed, run

PLATFORM = "manylinux_2_17_x86_64"
"""Machine code calls functions of libm and libc that have been there for longer."""
KINDS = (".nbc", ".compiled")
"""Files of machine code, and those that say that a kernel is there."""
FOLDER = "windtunnel/machine_code/"
FIRST = {
    "train": "llama3-70b-64xh100",
    "serve": "serving/llama3-70b-4xh100",
    "run": "llama3-70b-run",
    "cluster": "cluster/cluster-day",
    "reason": "reasoning/best-of-n",
}
"""Commands and the examples that they are given."""


def compiled(env: Environment, folder: Path) -> Path:
    """A folder with machine code of all kernels of the installed wheel, for the baseline of processors."""
    script = "from windtunnel.kernel_cache import BASELINE; print(*BASELINE)"
    name, features = run([env.python, "-c", script], cwd=env.place / "work").split()
    env.windtunnel("doctor", "--warm", NUMBA_CACHE_DIR=str(folder), NUMBA_CPU_NAME=name, NUMBA_CPU_FEATURES=features)
    return folder


def native_wheel(pure: Path, code: Path, tag: str, out: Path) -> Path:
    """The pure wheel with machine code, for one Python.

    Args:
        pure: the wheel for every platform.
        code: what `compiled` left.
        tag: of Python, such as cp311.
        out: folder of the result.
    """
    out.mkdir(parents=True, exist_ok=True)
    found = out / pure.name.replace("py3-none-any", f"{tag}-{tag}-{PLATFORM}")
    added = {FOLDER + f.relative_to(code).as_posix(): f.read_bytes() for f in code.rglob("*") if f.suffix in KINDS}
    with zipfile.ZipFile(pure) as own, zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as made:
        (about,) = [one for one in own.infolist() if one.filename.endswith(".dist-info/WHEEL")]
        record = about.filename.replace("/WHEEL", "/RECORD")
        listed = own.read(record).decode().splitlines()
        lines = [line for line in listed if not line.startswith((about.filename, record))]
        for one in own.infolist():
            if one.filename not in (about.filename, record):
                made.writestr(one, own.read(one))
        text = own.read(about).decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
        added[about.filename] = text.replace("Tag: py3-none-any", f"Tag: {tag}-{tag}-{PLATFORM}").encode()
        for name, content in sorted(added.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
            made.writestr(_entry(name, about), content)
        made.writestr(_entry(record, about), "\n".join([*lines, f"{record},,"]) + "\n")
    return found


def _entry(name: str, like: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """A compressed file of the same time and rights as another one."""
    found = zipfile.ZipInfo(name, like.date_time)
    found.external_attr, found.compress_type = like.external_attr, zipfile.ZIP_DEFLATED
    return found


def check_native(native: Path, pure: Path) -> str:
    """Hold the content against that of the pure wheel.

    Returns:
        How much machine code there is.

    Raises:
        Failed: it differs by something else than machine code, or there is none.
    """
    held, plain = ({n: z.getinfo(n) for n in z.namelist()} for z in map(zipfile.ZipFile, (native, pure)))
    code = {n: one for n, one in held.items() if n.startswith(FOLDER) and n.endswith(KINDS)}
    described = {n for n in plain if n.endswith((".dist-info/WHEEL", ".dist-info/RECORD"))}
    same = {n: one.CRC for n, one in plain.items() if n not in described}
    other = {n: one.CRC for n, one in held.items() if n not in code and n not in described}
    wrong = sorted(n for n in same.keys() | other.keys() if same.get(n) != other.get(n))
    if wrong:
        raise Failed(f"{native.name} differs from {pure.name}: {', '.join(wrong[:9])}")
    kernels = [one for n, one in code.items() if n.endswith(".nbc")]
    if not kernels:
        raise Failed(f"{native.name} holds no machine code")
    inside, packed = (
        sum(sizes) / 1e6 for sizes in zip(*((k.file_size, k.compress_size) for k in kernels), strict=True)
    )
    whole, before = native.stat().st_size / 1e6, pure.stat().st_size / 1e6
    return (
        f"{native.name}: {whole:.1f} MB ({before:.1f} MB without machine code), "
        f"{len(kernels)} functions of {inside:.1f} MB, {packed:.1f} MB packed"
    )


def first_commands(env: Environment, caches: Path) -> dict[str, float]:
    """Seconds of each command as the first one on a machine, with an empty cache of its own.

    Raises:
        Failed: one of them compiled something.
    """
    seconds = {}
    for command, example in FIRST.items():
        cache = caches / command
        begun = time.perf_counter()
        env.windtunnel(command, example, NUMBA_CACHE_DIR=str(cache))
        seconds[command] = time.perf_counter() - begun
        if made := sorted(file.name for file in cache.rglob("*.nbc")):
            raise Failed(f"windtunnel {command} {example}: the wheel's machine code was not used for {', '.join(made)}")
    return seconds
