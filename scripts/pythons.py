"""Try the distribution on every Python that is allowed, and with the lowest versions that are allowed: `make pythons`.

    make pythons               each Python from 3.11 up on the path, in pyenv or known to uv; then the lowest versions
    make pythons ONLY=lowest   one of them: 3.11, 3.12, …, lowest
    python scripts/pythons.py --write-lowest      write locks/lowest.txt from pyproject.toml anew

Each gets a fresh environment with the development tools at the versions of `locks/dev.txt`, or at the lowest ones of
`locks/lowest.txt`, and the wheel; there a first user's commands run, and the tests that compare predictions with the
stored ones at nine digits. A Python that cannot be had is named and skipped.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from distributions import ROOT, Environment, Failed, copy_of_the_source, environment, run, say, tried

NEWEST = 14
LOWEST = ROOT / "locks" / "lowest.txt"
TESTS = ("tests/golden/test_training_golden.py", "tests/unit/test_versions.py", "tests/integration/test_plugin.py")
"""Predictions at nine digits, names that changed, a plug-in: what other versions of Python or packages would break."""
HEAD = """\
# The lowest versions that pyproject.toml allows: scripts/pythons.py --write-lowest writes them, make pythons tries.
# pip install -c locks/lowest.txt windtunnel
"""


def lowest_versions() -> str:
    """A constraint for each package that the core, or an extra without large packages, names with a lowest version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {
        n: v for n, v in project["optional-dependencies"].items() if n not in ("dev", "torch", "oracle", "ray", "mcp")
    }
    found: dict[str, str] = {}
    for requirement in [*project["dependencies"], *(one for names in extras.values() for one in names)]:
        if match := re.match(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)", requirement):
            found[match[1]] = match[2]
    return HEAD + "".join(f"{name}=={version}\n" for name, version in sorted(found.items()))


def interpreters() -> dict[str, str | None]:
    """Minor version → its interpreter; None where there is none."""
    minor_of = {f"3.{minor}": None for minor in range(11, NEWEST + 1)}
    return {name: _interpreter(name) for name in minor_of}


def _interpreter(name: str) -> str | None:
    places = [sys.executable] if name == f"{sys.version_info[0]}.{sys.version_info[1]}" else []
    places += [str(Path(place) / f"python{name}") for place in os.environ.get("PATH", "").split(os.pathsep)]
    places += [str(place / "bin" / "python") for place in sorted(Path.home().glob(f".pyenv/versions/{name}.*"))]
    if shutil.which("uv"):
        told = subprocess.run(["uv", "python", "find", name], capture_output=True, text=True, check=False)
        places += [told.stdout.strip()] if told.returncode == 0 else []
    asks = "import sys, venv, ssl; print('%d.%d' % sys.version_info[:2])"
    for place in places:
        if Path(place).exists():
            done = subprocess.run([place, "-c", asks], capture_output=True, text=True, check=False)
            if done.returncode == 0 and done.stdout.strip() == name:
                return place
    return None


def try_one(name: str, python: str, wheel: Path, source: Path) -> None:
    """A fresh environment, the commands of a first user, and the tests.

    Raises:
        Failed: one of them.
    """
    with environment(python, wheel.parent / "fresh") as env:
        if name == "lowest":
            tools = ("pytest", "hypothesis", "pytest-benchmark", "setuptools>=77")
            env.pip("-c", LOWEST, f"{wheel}[frames]", *tools)
        else:
            env.pip("--require-hashes", "-r", ROOT / "locks" / "dev.txt")
            env.pip("--no-deps", wheel)
        figures = tried(env)
        say(f"{name}: {_versions(env)}: {figures}")
        say(f"{name}: {_tests(env, source)}")


def _versions(env: Environment) -> str:
    """Python and the packages that decide figures."""
    script = "import sys, numba, numpy, pydantic, scipy; print(sys.version.split()[0], "
    script += "*(f'{m.__name__} {m.__version__}' for m in (numba, numpy, pydantic, scipy)))"
    return run([env.python, "-c", script]).strip()


def _tests(env: Environment, source: Path) -> str:
    """The last line of the tests, which import what is installed: the copy of the source has no `src`."""
    words = [env.python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", *TESTS]
    return run(words, cwd=source, **env.variables).strip().splitlines()[-1]


def main() -> int:
    """Exit code 1 with the reason where something fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="3.11, 3.12, …, lowest")
    parser.add_argument("--write-lowest", action="store_true", help="write locks/lowest.txt")
    asked = parser.parse_args()
    if asked.write_lowest:
        LOWEST.write_text(lowest_versions(), "utf-8")
        return 0
    found = interpreters()
    found["lowest"] = found["3.11"]
    failed = []
    with tempfile.TemporaryDirectory() as scratch:
        source = copy_of_the_source(Path(scratch) / "source")
        run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", scratch, source])
        (wheel,) = Path(scratch).glob("*.whl")
        shutil.rmtree(source / "src")
        for name, python in found.items():
            if asked.only not in ("", name):
                continue
            if python is None:
                say(f"{name}: skipped, no interpreter on the path, in pyenv or known to uv")
                continue
            try:
                try_one(name, python, wheel, source)
            except Failed as error:
                failed.append(name)
                print(f"{name}: FAILED: {error}", file=sys.stderr, flush=True)
    say("failed: " + ", ".join(failed) if failed else "all that could be had are green")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
