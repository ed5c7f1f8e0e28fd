"""Example scenarios: in the wheel beside the package's data, in a checkout its folder `examples`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

_PACKED = Path(__file__).parent / "examples"
_CHECKOUT = Path(__file__).parents[2] / "examples"


def folder() -> Path:
    """Where the examples lie."""
    return _PACKED if _PACKED.is_dir() else _CHECKOUT


@cache
def scenarios() -> Mapping[str, Path]:
    """Name of each example, such as `llama3-70b-64xh100` or `serving/llama3-70b-4xh100` → its file."""
    root = folder()
    return {str(file.relative_to(root).with_suffix("").as_posix()): file for file in sorted(root.rglob("*.yaml"))}


def find(name: str) -> Path | None:
    """The file of an example by its name, with or without `examples/` and `.yaml`; None for any other name."""
    short = name.replace("\\", "/").removeprefix("./").removeprefix("examples/").removesuffix(".yaml")
    if not short or short.startswith(("/", "..")):
        return None
    exact = scenarios().get(short)
    if exact is not None:
        return exact
    ends = [file for full, file in scenarios().items() if full.rpartition("/")[2] == short]
    return ends[0] if len(ends) == 1 else None


def about(file: Path) -> str:
    """The first sentence of an example's comment."""
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("# ") and "yaml-language-server" not in line:
            return line[2:].strip()
        if line and not line.startswith("#"):
            break
    return ""
