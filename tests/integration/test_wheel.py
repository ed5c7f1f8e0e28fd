"""The wheel in a clean environment of every Python on this machine, run from a place that cannot be written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

ROOT = Path(__file__).parents[2]
SERVE = ROOT / "examples" / "serving" / "llama3-70b-4xh100.yaml"
TRAIN = ROOT / "examples" / "llama3-8b-8xh100-fsdp.yaml"


def pythons() -> list[str]:
    """Interpreters from 3.11 up: this one, those on the path, and those of pyenv."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    places = [Path(p) for p in os.environ.get("PATH", "").split(os.pathsep)]
    places += sorted(Path.home().glob(".pyenv/versions/*/bin"))
    for minor in range(11, 16):
        for place in places:
            python = place / f"python3.{minor}"
            works = python.exists() and subprocess.run(
                [python, "-c", "import venv, ssl"], capture_output=True, check=False
            )
            if works and works.returncode == 0:
                found.setdefault(f"3.{minor}", str(python))
    return sorted(found.values())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "examples", source / "examples")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"the wheel cannot be built here: {done.stderr.strip().splitlines()[-1:]}")
    (found,) = out.glob("*.whl")
    return found


def test_the_wheel_holds_the_product_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "windtunnel/systems/zero-bubble.yaml" in names
    assert "windtunnel/examples/serving/llama3-70b-4xh100.yaml" in names
    assert {name.partition("/")[0] for name in names if not name.startswith("windtunnel-")} == {"windtunnel"}


@pytest.mark.parametrize("python", pythons())
def test_the_wheel_runs_from_a_place_that_cannot_be_written_to(python: str, wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    install = [str(place / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", f"{wheel}[studio]"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{python}: its dependencies cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    (packages,) = place.glob("lib/python3.*/site-packages/windtunnel")
    for folder in [packages, *(p for p in packages.rglob("*") if p.is_dir())]:
        folder.chmod(0o555)
    home = tmp_path / "home"
    home.mkdir()
    own = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "NUMBA_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")}
    environment = own | {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    script = str(place / "bin" / "windtunnel")

    def run(*words: str) -> str:
        found = subprocess.run(
            [script, *words], cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=400
        )
        assert found.returncode == 0, found.stderr
        return found.stdout

    try:
        assert "step_time_s" in run("train", str(TRAIN), "--json", "--report", "report.html")
        assert (home / "report.html").stat().st_size > 10_000
        assert "ttft_s" in run("serve", str(SERVE), "--json")
        assert "proof" in run("plan", str(TRAIN), "--json")
        process = subprocess.Popen(
            [script, "studio", "--no-browser"], cwd=home, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        begun = time.monotonic()
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        print(f"{python}: studio told its address after {time.monotonic() - begun:.2f} s")
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()
    finally:
        for folder in [packages, *(p for p in packages.rglob("*") if p.is_dir())]:
            folder.chmod(0o755)
