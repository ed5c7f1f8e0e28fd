"""The files of the later draw of `public_files.yaml`: every candidate of a search, and those that a seed draws of them.

The search stands under `later` in `public_draw.yaml`: repositories, a pattern in their texts, endings of names, a seed
and the most files a repository. Nothing is left out by hand.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE)]

from public_files import Snapshots  # noqa: E402


def candidates(git_folder: Path, search: dict[str, Any]) -> list[str]:
    """Paths of a repository whose text the pattern finds, in order."""
    endings = [f"*{ending}" for ending in search["endings"]]
    words = ["git", f"--git-dir={git_folder}", "grep", "-lE", search["pattern"], "HEAD", "--", *endings]
    found = subprocess.run(words, capture_output=True, check=False).stdout.decode("utf-8", "replace")
    paths = [line.removeprefix("HEAD:") for line in found.splitlines()]
    return sorted(path for path in paths if not re.search(search["paths_without"], path))


def drawn(paths: Sequence[str], seed: int, repository: str, most: int) -> list[str]:
    """As many of the paths as are asked for, by the seed and the repository's name."""
    return sorted(random.Random(f"{seed} {repository}").sample(list(paths), min(most, len(paths))))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print repository and path of every file that is drawn, or of every candidate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--snapshots", type=Path, required=True, help="folder of clones, OWNER/NAME or OWNER+NAME each")
    parser.add_argument("--search", type=Path, default=HERE / "public_draw.yaml")
    parser.add_argument("--all", action="store_true", help="candidates, not what is drawn of them")
    chosen = parser.parse_args(arguments)
    search = yaml.safe_load(chosen.search.read_text("utf-8"))["later"]
    snapshots = Snapshots(chosen.snapshots, chosen.snapshots)
    for repository in search["repositories"]:
        folder = snapshots.git_folder(repository)
        if folder is None:
            print(f"{repository}: no clone", file=sys.stderr)
            continue
        found = candidates(folder, search)
        taken = found if chosen.all else drawn(found, search["seed"], repository, search["most_per_repository"])
        for path in taken:
            print(repository, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
