"""Writes `stacks/recipes/torchtitan/train_configs.yaml` from a checkout of torchtitan.

    python -m windtunnel_lab.recipes.torchtitan REPOSITORY COMMIT [COMMIT …]

A recipe is a file below `train_configs`, by its name, or since 2026 a function of a `config_registry.py`. Its global
batch follows from the devices of the launch, so that a scenario states it.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from windtunnel.importers import torchtitan
from windtunnel.importers.launch import Wanted
from windtunnel_lab.recipes.records import content, git, nested, write

REPOSITORY = "pytorch/torchtitan"
NODES = 128
"""Nodes of eight devices on which the configurations are read: every public layout fits."""


def main(repository: str, commits: list[str]) -> None:
    """Read the commits and write the file."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for day, commit in sorted(git(repository, "log", "-1", "--format=%cs %H", commit).split() for commit in commits):
        for path in git(repository, "ls-tree", "-r", "--name-only", commit, "torchtitan").split():
            for name, launch in _launches(repository, commit, path):
                if launch.problems or "model" not in launch.fields:
                    print(f"{commit[:9]} {name}: {'; '.join(map(str, launch.problems))}", file=sys.stderr)
                    continue
                fields = {path: v for path, v in launch.fields.items() if path.startswith(("training.", "plan."))}
                for computed in ("training.global_batch", "training.framework", "plan.dp"):
                    fields.pop(computed, None)
                training, plan = nested(fields)
                source = f"{REPOSITORY} {path} {name} at {commit[:12]}"
                record = {"since": day, "source": source, "model": launch.fields["model"]}
                record |= {"training": training, "plan": plan}
                if not found[name] or content(found[name][-1]) != content(record):
                    found[name].append(record)
    write("torchtitan", "train_configs", REPOSITORY, "windtunnel_lab.recipes.torchtitan", found)


def _launches(repository: str, commit: str, path: str) -> Iterator[tuple[str, Any]]:
    """Name and reading of each configuration of a file."""
    wanted = {"device": "h100-sxm-80gb", "nodes": NODES, "devices_per_node": 8}
    if path.endswith("config_registry.py") and "/models/" in path:
        text = git(repository, "show", f"{commit}:{path}")
        for name in re.findall(r"^def ((?!\w*debug)\w+)\(\)", text, re.M):
            yield name, torchtitan.read(text, path, Wanted(**wanted, env={"CONFIG": name}))  # type: ignore[arg-type]
    elif "/train_configs/" in path and path.endswith(".toml") and "debug" not in path and "flux" not in path:
        text = git(repository, "show", f"{commit}:{path}")
        yield path.rsplit("/", 1)[1].removesuffix(".toml"), torchtitan.read(text, path, Wanted(**wanted))  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
