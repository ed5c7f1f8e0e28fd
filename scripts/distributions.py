"""Distributions of this repository in environments of their own: what `make release` and `make pythons` share."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "MYPYPATH")
"""Variables that would let this checkout, or another environment, into the one that is tried; those of Numba too."""
LIMIT_S = 900


class Failed(Exception):
    """A step that did not do what it has to; the text says which, and the end of what it printed."""


def say(text: str) -> None:
    """A line of progress."""
    print(text, flush=True)


def run(words: Sequence[str | Path], *, cwd: Path | None = None, **variables: str) -> str:
    """Standard output of a command.

    Raises:
        Failed: its exit code is not 0.
    """
    own = {n: value for n, value in os.environ.items() if n not in LEFT_OUT and not n.startswith("NUMBA_")}
    done = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=own | variables, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    if done.returncode:
        shown = " ".join(str(word) for word in words)
        raise Failed(f"{shown}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


@dataclass(slots=True)
class Environment:
    """A virtual environment, with a home folder and a working folder that hold nothing else."""

    place: Path
    python: Path
    variables: dict[str, str] = field(default_factory=dict)

    def pip(self, *words: str | Path) -> None:
        """Install."""
        run([self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *words])

    def windtunnel(self, *words: str | Path, **variables: str) -> str:
        """What a command of the installed distribution prints, started in the working folder."""
        own = self.variables | variables
        return run([self.place / "bin" / "windtunnel", *words], cwd=self.place / "work", **own)

    def sizes_mib(self) -> dict[str, float]:
        """MiB on the disk of what was installed beside pip and what comes with it, by folder, the largest first."""
        (packages,) = self.place.glob("lib/python3*/site-packages")
        own = [one for one in packages.iterdir() if not one.name.startswith(("pip", "setuptools", "pkg_resources"))]
        return dict(sorted(((one.name, file_bytes(one) / 2**20) for one in own), key=lambda pair: -pair[1]))


def file_bytes(path: Path) -> int:
    """Bytes on the disk of a file, or of a folder's files."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(one.lstat().st_blocks * 512 for one in files)


@contextmanager
def environment(python: str | Path, place: Path) -> Iterator[Environment]:
    """A fresh virtual environment, removed afterwards. Machine code is kept in the same folder, for the next one."""
    run([python, "-m", "venv", place])
    for name in ("home", "work"):
        (place / name).mkdir()
    variables = {"HOME": str(place / "home"), "XDG_CACHE_HOME": str(place.parent / "cache")}
    try:
        yield Environment(place, place / "bin" / "python", variables)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def tried(env: Environment) -> str:
    """Run what a first user runs: a scenario of each kind, predicted; the studio's help.

    Returns:
        The two figures, in one line.

    Raises:
        Failed: a command ends otherwise than with 0, or gives no figure.
    """
    env.windtunnel("init", "my.yaml", "--model", "meta-llama/Llama-3.1-8B", "--device", "h100-sxm-80gb", "--nodes", "1")
    step = json.loads(env.windtunnel("train", "my.yaml", "--json"))
    env.windtunnel("init", "served.yaml", "--serving")
    served = json.loads(env.windtunnel("serve", "served.yaml", "--json"))
    if "Usage: windtunnel studio" not in env.windtunnel("studio", "--help"):
        raise Failed("windtunnel studio --help: no help text")
    if not (step["step_time_s"] > 0 and served["output_tokens_per_s"] > 0):
        raise Failed("a prediction is no positive number")
    return (
        f"train {step['step_time_s']:.4g} s a step, serve {served['output_tokens_per_s']:.4g} tokens/s, studio --help"
    )


def copy_of_the_source(to: Path) -> Path:
    """The files that the repository tracks, in a folder of their own; the workshop gets the licence beside it."""
    for name in run(["git", "ls-files", "-z", "--cached"], cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            target = to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target)
    for name in ("LICENSE", "NOTICE"):
        shutil.copyfile(ROOT / name, to / "workshop" / name)
    return to


def build(source: Path, tools: Environment, out: Path) -> list[Path]:
    """Source archives, and wheels built from them, of both distributions."""
    stamp = run(["git", "log", "-1", "--format=%ct"], cwd=ROOT).strip()
    for folder in (source, source / "workshop"):
        run([tools.python, "-m", "build", "--no-isolation", "--outdir", out, folder], SOURCE_DATE_EPOCH=stamp)
    return sorted(out.iterdir())
