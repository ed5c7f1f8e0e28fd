"""Where the `config.json` of a checkpoint lies that a launch file names: its folder, or the cache of Hugging Face."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from windtunnel.files import reading
from windtunnel.files.user_folders import cache_folder
from windtunnel.importers.named_files import beside

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def config_of(name: str, file: str) -> Path | None:
    """The `config.json` of a checkpoint; None where none can be read.

    Args:
        name: as the launch file names the checkpoint: a folder, or a repository of the Hugging Face Hub.
        file: the launch file; a folder counts where it lies below that of the file, or of its repository.
    """
    if "$" in name or "\0" in name:
        return None
    own = beside(file, f"{name}/config.json")
    if own is not None or not _HUB_NAME.fullmatch(name):
        return own
    stored = _snapshots(_hub_cache() / f"models--{name.replace('/', '--')}")
    return next((folder / "config.json" for folder in stored if reading.is_file(folder / "config.json")), None)


def _hub_cache() -> Path:
    """Folder of downloaded repositories (huggingface_hub, "Understand caching")."""
    own = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return Path(own) if own else Path(os.environ.get("HF_HOME") or cache_folder("huggingface")) / "hub"


def _snapshots(repository: Path) -> Iterator[Path]:
    """The snapshot of `refs/main`, then the others."""
    try:
        others = sorted((repository / "snapshots").iterdir())
    except OSError:
        return
    main = repository / "refs" / "main"
    if reading.is_file(main):
        yield repository / "snapshots" / reading.read_text(main, most_bytes=200).strip()
    yield from others
