"""Predictions of the examples that moved since a tag or commit, by how much, and the commits that say why.

    make moved SINCE=v0.1.0                 every example, a table for CHANGELOG.md
    make moved SINCE=v0.1.0 ONLY=serving    examples whose path contains a word

Both versions compute: the one of SINCE in a worktree of its own, with the packages of this environment. Figures are
those that `--json` of the example's command has under the same key in both.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {"run": "run", "cluster": "cluster", "learning": "learn", "reasoning": "reason", "serving": "serve"}
"""Folder of examples → command; those of `examples/` itself train, or run where they have a section `run`."""
FIGURES = {
    "train": ("step_time_s", "mfu", "peak_memory_reserved_bytes"),
    "serve": ("ttft_s.p50", "tpot_s.p50", "output_tokens_per_s"),
    "run": ("days.p50", "goodput"),
    "cluster": ("jct_s.mean", "makespan_s", "utilisation"),
    "learn": (),
    "reason": (),
}
"""Figures of a table, where a result has them; all figures of a command without."""
SMALLEST = 1e-6
"""Relative change that counts."""
NOT_FIGURES = frozenset({"wall_s", "elapsed_s", "simulated_in_s", "compile_s", "worker_steps_per_s", "schema_version"})
START = "import sys; from windtunnel.cli.main import main; sys.exit(main())"
"""Runs the command line of earlier releases too, which `python -m windtunnel` does not."""
STORED = ("tests/golden/training_golden.json", "tests/golden/commands/*.json")
SHOWN = 8
"""Figures of an example that a table lists where its command names none."""


def examples(only: str) -> Iterator[tuple[str, str]]:
    """Command and path of each example that predicts."""
    for path in sorted((ROOT / "examples").rglob("*.yaml")):
        name = str(path.relative_to(ROOT))
        folder = path.parent.name
        if only not in name or folder not in (*COMMANDS, "examples"):
            continue
        sections = yaml.safe_load(path.read_text("utf-8"))
        if folder in COMMANDS:
            yield COMMANDS[folder], name
        elif "training" in sections:
            yield ("run" if "run" in sections else "train"), name


def predicted(source: Path, command: str, name: str) -> dict[str, Any] | str:
    """Result of an example by the sources of a folder, or the last line of why there is none."""
    own = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPATH": str(source / "src")}
    done = subprocess.run(
        [sys.executable, "-c", START, command, name, "--json"],
        cwd=source, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if not done.stdout.startswith("{"):
        return (done.stderr.strip().splitlines() or ["no result"])[-1]
    found: dict[str, Any] = json.loads(done.stdout)
    return "; ".join(p["message"] for p in found["error"]["problems"]) if "error" in found else found


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Dotted path and value of each figure, without the scenario that a result repeats."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in NOT_FIGURES and (path or key not in ("scenario", "assumed", "citations")):
                yield from numbers(inner, f"{path}.{key}".strip("."))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from numbers(inner, f"{path}.{at}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, float(value)


def moved(command: str, was: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Figures that differ, those of `FIGURES` where one of them does, else the ones that moved most."""
    older, newer = dict(numbers(was)), dict(numbers(now))
    found = [
        (name, older[name], newer[name])
        for name in older
        if name in newer and not math.isclose(older[name], newer[name], rel_tol=SMALLEST, abs_tol=1e-12)
    ]
    main = [one for one in found if one[0] in FIGURES[command]]
    return main or sorted(found, key=lambda one: -_size(one))[:SHOWN]


def _size(one: tuple[str, float, float]) -> float:
    return abs(math.log(one[2] / one[1])) if one[1] * one[2] > 0 else math.inf


def row(name: str, figure: str, was: float, now: float) -> str:
    """A line of the table."""
    change = f"{100 * (now / was - 1):+.3g} %" if was else ""
    return f"| {name} | {figure} | {was:.6g} | {now:.6g} | {change} |"


def commits(git: list[str], since: str) -> list[str]:
    """Commits that replaced lines of stored predictions: those which only added some moved nothing."""
    words = [*git, "log", "--reverse", "--numstat", "--format=commit %h %s", f"{since}..HEAD", "--", *STORED]
    found: dict[str, bool] = {}
    for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines():
        if line.startswith("commit "):
            found[line.removeprefix("commit ")] = False
        elif line and int(line.split("\t")[1]) > 0:
            found[list(found)[-1]] = True
    return [commit for commit, replaced in found.items() if replaced]


def main() -> int:
    """Print the table and the commits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("since", help="a tag or commit")
    parser.add_argument("--only", default="", help="examples whose path contains this")
    asked = parser.parse_args()
    git = ["git", "-C", str(ROOT)]
    known = subprocess.run(
        [*git, "rev-parse", "--verify", "--quiet", f"{asked.since}^{{commit}}"], check=False, capture_output=True
    )
    if known.returncode:
        print(f"moved: {asked.since}: no such tag or commit", file=sys.stderr)
        return 2
    rows, same, failed = [], 0, []
    with tempfile.TemporaryDirectory() as scratch:
        older = Path(scratch) / "since"
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(older), asked.since], check=True)
        try:
            for command, name in examples(asked.only):
                if not (older / name).is_file():
                    failed.append(f"{name}: new")
                    continue
                was, now = predicted(older, command, name), predicted(ROOT, command, name)
                if isinstance(was, str) or isinstance(now, str):
                    failed.append(f"{name}: {'then: ' + was if isinstance(was, str) else 'now: ' + str(now)}")
                elif differences := moved(command, was, now):
                    rows += [row(name.removeprefix("examples/"), *one) for one in differences]
                else:
                    same += 1
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(older)], check=False)
    print(f"| example | figure | {asked.since} | now | change |\n|---|---|---|---|---|")
    print("\n".join(rows) or "| none moved | | | | |")
    print(f"\nequal to {-math.log10(SMALLEST):.0f} digits: {same} examples")
    for line in failed:
        print(f"not compared: {line}")
    print("\nCommits that changed stored predictions since:")
    print("\n".join(commits(git, asked.since)) or "none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
