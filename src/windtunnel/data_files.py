"""YAML files that come with the package, read by libyaml where it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent


def read_yaml(path: str) -> Any:
    """A file as plain data.

    Args:
        path: below `windtunnel/`.

    Raises:
        FileNotFoundError: there is none.
    """
    return parse_yaml((ROOT / path).read_text("utf-8"))


def parse_yaml(text: str) -> Any:
    """A text as plain data."""
    import yaml

    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
