"""Words for formats of numbers: names of checkpoints, options and questions are read by one table."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

from windtunnel.data_files import read_yaml
from windtunnel.specs.number_formats import MATRIX_FORMAT
from windtunnel.specs.serving import WeightFormat
from windtunnel.specs.workload import BaseFormat
from windtunnel.stacks.defaults import plain

WEIGHTS, BASE, PRECISION = "serving.precision.weights", "training.lora.quantized_base", "training.precision"
"""Fields of a scenario that name a format."""


def format_named(word: str, where: str = "") -> str | None:
    """The format that a word stands for; None where it stands for none.

    Args:
        word: in any case, with any marks between its letters and digits.
        where: place that has words of its own (`own` in the table); others are read there too.

    Example:
        >>> format_named("FP4"), format_named("fp4", "quark"), format_named("Q4_K_M")
        ('nvfp4', 'mxfp4', 'q4_k')
    """
    return words(where).get(plain(word))


def format_of_bits(method: str, bits: object) -> str | None:
    """The format of a method's weights of so many bits: that of `bnb-4bit`, else of `4bit`."""
    if isinstance(bits, bool) or not isinstance(bits, int | float):
        return None
    return format_named(f"{method}-{bits:g}bit") or format_named(f"{bits:g}bit")


def format_at_start(text: str, where: str = "") -> str | None:
    """The format of the longest word that a text begins with."""
    own, known = plain(text), words(where)
    found = max((word for word in known if own.startswith(word)), key=len, default="")
    return known.get(found)


def in_field(format: str | None, field: str) -> str | None:
    """What a field of a scenario calls a format; None where it has no such value.

    Example:
        >>> in_field("mxfp8", WEIGHTS), in_field("mxfp8", PRECISION), in_field("w4a16", BASE)
        ('fp8', 'mxfp8', 'int4')
    """
    if format is None or format in _values(field):
        return format
    found: str | None = _table()["fields"].get(field, {}).get("calls", {}).get(format)
    return found


def served(word: str, where: str = "") -> str | None:
    """What `serving.precision.weights` calls the format that a word stands for; None where it stands for none."""
    return in_field(format_named(word, where), WEIGHTS)


def torch_dtype(word: str) -> str | None:
    """bf16, fp16 or fp32 of what torch calls a dtype; None for any other.

    Example:
        >>> torch_dtype("torch.bfloat16"), torch_dtype("half"), torch_dtype("float8_e4m3fn")
        ('bf16', 'fp16', None)
    """
    found = format_named(word.removeprefix("torch."), "torch")
    return found if found in ("bf16", "fp16", "fp32") else None


@cache
def words(where: str = "") -> dict[str, str | None]:
    """Letters and digits of every word that is read in a place → format."""
    table = _table()
    found = {plain(word): name for name, row in table["formats"].items() for word in (name, *row["words"])}
    own = table["own"][where]["words"] if where in table["own"] else {}
    return found | {plain(word): name for word, name in own.items()}


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml("stacks/weight_formats.yaml")
    return found


def _values(field: str) -> tuple[str, ...]:
    return {WEIGHTS: get_args(WeightFormat), BASE: get_args(BaseFormat), PRECISION: tuple(MATRIX_FORMAT)}[field]
