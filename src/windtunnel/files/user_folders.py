"""Folders of the user; a user without a home, as containers have them, has paths at which nothing is and can be."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """The user's home folder; of a user without one a path that leads nowhere."""
    try:
        return Path.home()
    except RuntimeError:
        return Path(os.devnull, "home")


def config_folder() -> Path:
    """Where the user's settings of windtunnel lie: below `XDG_CONFIG_HOME`, else `~/.config`."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or home() / ".config") / "windtunnel"


def cache_folder(of: str = "windtunnel") -> Path:
    """Where something that can be made again lies: below `XDG_CACHE_HOME`, else `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / of


def of_this_user(status: os.stat_result) -> bool:
    """Whether this user alone may write to a file or a folder."""
    return not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)
