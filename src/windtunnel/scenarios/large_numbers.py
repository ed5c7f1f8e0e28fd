"""`8k`, `1M`, `15T` where a number stands: in lengths of sequences k is 1,024, in counts powers of ten."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ValidationError

from windtunnel.quantities import SUFFIXES_OF_COUNTS, SUFFIXES_OF_LENGTHS
from windtunnel.scenarios.union_branches import place_of, value_at

_WRITTEN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMBT])\s*")
_LENGTH = re.compile(r"(.*\.)?((decoder_)?seq_len|max_model_len|mean_document_length|block_size|\w+_tokens)(\.\w+)*")
"""Paths of fields that are tokens of a sequence; tokens of a whole run are called `tokens`."""


def number_of(path: str, text: Any) -> int | float | None:
    """The number that a text such as `8k` is at a field; None for any other value.

    Example:
        >>> number_of("training.seq_len", "8k"), number_of("training.global_batch", "1k"), number_of("x", "8 GiB")
        (8192, 1000, None)
    """
    found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    factor = found and (SUFFIXES_OF_LENGTHS if _LENGTH.fullmatch(path) else SUFFIXES_OF_COUNTS).get(found[2].lower())
    if found is None or factor is None:
        return None
    value = float(found[1]) * factor
    return int(value) if value.is_integer() else value


def written_out(spec: type[BaseModel], data: Any, error: ValidationError) -> bool:
    """Put numbers in the place of texts such as `8k` that a record refused as they stand.

    Args:
        spec: Type of the record.
        data: Its fields, which are changed.
        error: What the record refused.

    Returns:
        Whether any was written out.
    """
    changed = False
    for item in error.errors(include_url=False, include_context=False):
        place = place_of(spec, data, item["loc"])
        if place is None or not place.path:
            continue
        number = number_of(place.path, value_at(data, place.path))
        if number is not None:
            *parents, last = place.path.split(".")
            inside = value_at(data, ".".join(parents)) if parents else data
            inside[int(last) if isinstance(inside, list) else last] = number
            changed = True
    return changed
