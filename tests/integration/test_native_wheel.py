"""An environment with the wheel for one platform runs a first command without compiling."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = """
from windtunnel.kernel_cache import always_compiled
from windtunnel.runs.event_loop.replicate import jitted
from windtunnel.runs.simulate import simulate_run
with always_compiled():
    simulate_run("llama3-70b-run.yaml", sensitivities=False, run=jitted)
"""
"""Compiles what `windtunnel run` needs; `doctor --warm`, which the release uses, compiles all kernels."""


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of the folder of scripts; no variable of this process is for the environments."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    for name in [name for name in os.environ if name.startswith("NUMBA_") or name == "PYTHONPATH"]:
        monkeypatch.delenv(name)


def done(*words: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    found = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    return found


def installed(wheel: Path, place: Path) -> Path:
    """The interpreter of a new environment that has this wheel, and what it needs from the running one."""
    done(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
    (packages,) = place.glob("lib/python3*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return place / "bin" / "python"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="wheels with machine code are for Linux")
def test_a_first_command_from_the_wheel_compiles_nothing(tmp_path: Path) -> None:
    import native
    from distributions import copy_of_the_source

    from windtunnel.kernel_cache import _BASELINE_FLAGS, BASELINE, _processor_flags

    if not _processor_flags() >= _BASELINE_FLAGS:
        pytest.skip("this processor is below the baseline")
    source = copy_of_the_source(tmp_path / "source")
    isolated = int(version("setuptools").partition(".")[0]) < 77
    words = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", tmp_path, source]
    done(sys.executable, *words, *([] if isolated else ["--no-build-isolation"]), cwd=tmp_path)
    (pure,) = tmp_path.glob("*.whl")
    python, code, work = installed(pure, tmp_path / "pure"), tmp_path / "code", source / "examples"
    told = {"NUMBA_CPU_NAME": BASELINE[0], "NUMBA_CPU_FEATURES": BASELINE[1], "NUMBA_CACHE_DIR": str(code)}
    done(python, "-c", KERNELS, cwd=work, **told)

    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheel = native.native_wheel(pure, code, tag, tmp_path / "native")
    assert "machine code" in native.check_native(wheel, pure)
    python, cache = installed(wheel, tmp_path / "fresh"), tmp_path / "cache"
    cli = [python, "-m", "windtunnel", "run", "llama3-70b-run", "--json"]
    first = done(*cli, cwd=tmp_path, NUMBA_CACHE_DIR=str(cache))
    assert "compiled kernels" not in first.stderr and not list(cache.rglob("*.nbc"))
    assert list(cache.rglob("windtunnel-kernels-runs*"))
    plain = done(*cli, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "other"), NUMBA_OPT="3")
    one, other = (json.loads(r.stdout, parse_float=lambda x: f"{float(x):.9g}") for r in (first, plain))
    assert [one.pop("simulated_in_s"), other.pop("simulated_in_s")] and one == other, "the plain twin runs first there"
    said = done(python, "-m", "windtunnel", "doctor", cwd=tmp_path, NUMBA_OPT="3", COLUMNS="300").stdout
    assert "those of this installation cannot be used: NUMBA_OPT may change machine code" in " ".join(said.split())
